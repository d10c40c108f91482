"""Errors that carry the exit code of the command line."""

__simverify_role__ = "shared"


class SimverifyError(Exception):
    """A one-line message for the user: what was got, the rule it breaks, what to do."""

    exit_code = 4


class UsageError(SimverifyError):
    """Bad input: a wrong option, name, file or model."""

    exit_code = 2


class Unsupported(SimverifyError):
    """Code under audit does what a stand-in of ours does not compute: that is no fault of its."""


class OptionError(UsageError):
    """Bad input that names options, each as ``{top_k}`` in its text.

    The message has them as the command line does, ``--top-k``; ``in_python`` as keywords.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text.format_map(_FlagNames()))
        self.in_python = text.format_map(_KeywordNames())


def escape_braces(given: object) -> str:
    """Return ``repr(given)`` for the text of an :class:`OptionError`, where braces name options."""
    return repr(given).replace("{", "{{").replace("}", "}}")


class _FlagNames(dict[str, str]):
    def __missing__(self, name: str) -> str:
        # What is judged has no flag.
        return "SPEC" if name == "rule" else f"--{name.replace('_', '-')}"


class _KeywordNames(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name

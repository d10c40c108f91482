"""How a call of code under audit ends: with tokens, or with what is told of it instead."""

from dataclasses import dataclass

Tokens = tuple[int, ...]


class BadTokens(Exception):
    """What the code returned is not a sequence of tokens; carries the finding's text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Outcome:
    """One call's end: the tokens, or what went wrong."""

    tokens: Tokens | None
    kind: str = ""
    message: str = ""


def one_line(error: BaseException) -> str:
    """First line of an error's message, cut to a readable length."""
    try:
        return str(error).splitlines()[0][:200] if str(error) else ""
    except Exception:
        return "(its message cannot be printed)"

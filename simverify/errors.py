"""Errors that carry the exit code of the command line."""


class SimverifyError(Exception):
    """A one-line message for the user: what was got, the rule it breaks, what to do."""

    exit_code = 4


class UsageError(SimverifyError):
    """Bad input: a wrong option, name, file or model."""

    exit_code = 2

"""How a call of code under audit ends: with tokens, or with what is told of it instead."""

from dataclasses import dataclass

from simverify.symbolic.whose import is_library, is_ours, is_users_file

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


def user_line(error: BaseException) -> str:
    """`` (file:line)`` of the innermost user code in the traceback, or nothing."""
    trace = error.__traceback__
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        module = trace.tb_frame.f_globals.get("__name__", "")
        if is_users_file(file) and not (is_ours(module) or is_library(module)):
            found = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found

"""What stops an enumeration, and where in the user's code it happened."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from simverify.symbolic.whose import is_library, is_ours

if TYPE_CHECKING:
    from types import FrameType

Severity = Literal["violation", "warning"]

UNTRACKED = "randomness that is not tracked, or state kept between calls"
"""What is to blame if one path of draws went two ways."""


@dataclass(frozen=True)
class Finding:
    """Something the code under audit did that its contract forbids.

    ``kind`` is a stable short name, ``severity`` is ``violation`` or ``warning``, ``message``
    says what was done and, where one is known, on which line.
    """

    kind: str
    severity: Severity
    message: str


class CannotEnumerate(Exception):
    """The code does something with a draw that the exact tier cannot follow.

    ``call`` names the operation, ``where`` the user's ``file:line`` (empty if unknown);
    ``findings`` are those recorded before it stopped.
    """

    def __init__(self, call: str, where: str = "", findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(f"cannot follow {call}" + (f" at {where}" if where else ""))
        self.call = call
        self.where = where
        self.findings = findings


class Untracked(CannotEnumerate):
    """One path of draws went two ways: something drew what is not tracked."""


class FloatOfDraw(CannotEnumerate):
    """A float was asked for; a stand-in for what makes floats may let the draw be one."""


class OnSymbolsAlone(CannotEnumerate):
    """The code raised on a symbol what it does not raise on numbers."""


class IntOfDraw(CannotEnumerate):
    """An integer of many values was asked for; a stand-in for ``int`` may let it stay a draw."""


class OutOfTime(Exception):
    """The time limit passed before the last path was run."""

    def __init__(self, seconds: float, paths: int) -> None:
        super().__init__(f"{paths} paths in {seconds:g} s and not done: raise the limit")
        self.seconds = seconds
        self.paths = paths


def users_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not is_ours(module) and not is_library(module):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if module == "simverify.symbolic.enumeration.engine":
            return ""
        frame = frame.f_back
    return ""

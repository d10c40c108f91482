"""What stops an enumeration, and where in the user's code it happened."""

from dataclasses import dataclass
from typing import Literal

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


def keep_gravest(findings: dict[str, Finding], new: Finding) -> None:
    """Keep the first finding of each kind, unless a later one is the first violation among them.

    What goes wrong at the edge of a draw on one path, which is a warning, may go wrong on many.
    """
    known = findings.get(new.kind)
    if known is None or (known.severity, new.severity) == ("warning", "violation"):
        findings[new.kind] = new


class StandInsChanged(Exception):
    """Other stand-ins are needed, whose choices are not those that a run was to go on from."""


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


class TooLarge(CannotEnumerate):
    """What is followed on smaller instances would take too long on this one."""


class FloatOfDraw(CannotEnumerate):
    """A float was asked for; a stand-in for what makes floats may let the draw be one."""


class ArrayOfDraws(CannotEnumerate):
    """numpy itself made an array of draws: its elements would not take the array's type."""


class OnSymbolsAlone(CannotEnumerate):
    """The code raised on a symbol what it does not raise on numbers."""


class IntOfDraw(CannotEnumerate):
    """An integer of many values was asked for; a stand-in for ``int`` may let it stay a draw."""


class TooManyValues(CannotEnumerate):
    """A number was asked of a draw that has too many for a fork on each."""


class OutOfTime(Exception):
    """The time limit passed before the last path was run."""

    def __init__(self, seconds: float, paths: int) -> None:
        super().__init__(f"{paths} paths in {seconds:g} s and not done: raise the limit")
        self.seconds = seconds
        self.paths = paths


class CallBroken(Exception):
    """A call that ended so that what comes after it says nothing: a program died, or hangs.

    ``kind`` and the message are those of a finding; ``line``: what was asked, as JSON.
    """

    def __init__(self, kind: str, message: str, line: str) -> None:
        super().__init__(message)
        self.kind, self.line = kind, line

"""Findings about lines of the code under audit, which their words name."""

from typing import Literal

from msgspec import UNSET, UnsetType

from simverify.results import Finding
from simverify.symbolic.whose import lines_in


def finding(
    kind: Literal["probe", "contract"], text: str, broke: str | UnsetType = UNSET
) -> Finding:
    """Return a finding, with the line that its text names last, and those that called it."""
    lines = lines_in(text)
    return Finding(
        kind=kind,
        text=text,
        line=lines[0] if lines else None,
        broke=broke,
        callers=lines[1:] or UNSET,
    )

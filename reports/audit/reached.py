"""Which lines the calls of an audit reached, and how far the calls went, in words."""

from msgspec import UNSET

from simverify.reports.audit.found import count
from simverify.reports.words import first, shortened
from simverify.results import Coverage, MissedLines

_FEW = 4
_LONGEST = 90


def reached_words(found: Coverage | None, *, verbose: bool = False) -> str:
    """Return how many lines ran and which did not; "" where none were counted.

    ``verbose``: with all of them, and the branches that were not taken.
    """
    if found is None or not found.lines:
        return ""
    text = f"reached {found.lines_reached} of {count(found.lines, 'line')}"
    missed = [_place(x) for x in found.not_reached]
    if verbose:
        text += f" and {found.branches_reached} of {found.branches:,} branches"
        missed += list(found.not_taken)
    shown, more = first(missed, len(missed) if verbose else _FEW)
    if shown:
        text += f"; not reached: {'; '.join(shown)}"
    if more:
        text += f"; {more} more: see --verbose"
    if limits := _tried(found):
        text += f"; not tried: {' or '.join(limits)}"
    return text


def _tried(found: Coverage) -> list[str]:
    """Return how far the calls went, where that may matter."""
    prefix, calls = found.prefix, found.calls
    return [
        *([f"prefixes of more than {count(prefix, 'token')}"] if prefix is not UNSET else []),
        *([f"more than {count(calls, 'call')} in a row"] if calls is not UNSET else []),
    ]


def _place(missed: MissedLines) -> str:
    last = "" if missed.last == missed.first else f"-{missed.last}"
    why = f" ({shortened(missed.why, _LONGEST)})" if missed.why else ""
    return f"{missed.file}:{missed.first}{last}{why}"

"""What an audit tried, in words: the exact tier's paths, the lines reached, how far calls went."""

from msgspec import UNSET

from simverify.reports.audit.found import count
from simverify.reports.words import first, shortened
from simverify.results import AuditRun, Coverage, ExactInstance, MissedLines

ALLOWED = 1e-6
"""Mass that may be left out where paths have no end, as the exact tier allows."""

_FEW = 4
_LONGEST = 90


def exact_words(run: AuditRun) -> str:
    """Return how far the law is off where all was run, and what was left out elsewhere."""
    cut = cut_short(run)
    words = f"{count(len(run.instances), 'instance')}, {count(run.paths, 'path')}: "
    whole = [i.max_abs_deviation for i in run.instances if i not in cut]
    words += f"largest deviation {max(whole):.2g}, " if whole else ""
    words += f"tolerance {run.tolerance:g} ({run.dtype})"
    if not cut:
        return words
    where = f"{len(cut)} of them" if whole else "each of them"
    most = max(instance.max_abs_deviation for instance in cut)
    return (
        f"{words}; on {where} the lightest paths are left out, and no output is off by more than "
        f"{most:.2g}, what they may hide ({ALLOWED:g} is allowed)"
    )


def cut_short(run: AuditRun) -> list[ExactInstance]:
    """Return the instances that pass although more of them than the tolerance was left out."""
    if run.not_enumerable is not None:
        return []  # such a run decides nothing by them
    return [i for i in run.instances if not i.failed and i.max_abs_deviation > run.tolerance]


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

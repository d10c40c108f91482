"""What the exact tier did, in words: on how much, how far off, and which paths it left out."""

from simverify.reports.audit.found import count
from simverify.results import AuditRun, ExactInstance

ALLOWED = 1e-6
"""Mass that may be left out where paths have no end, as the exact tier allows."""


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

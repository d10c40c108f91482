"""A run held against a baseline."""

from simverify.baselines.audits import audit_items
from simverify.baselines.comparisons import comparison_check
from simverify.baselines.fits import fit_iv
from simverify.baselines.items import ALPHA, DETECT, Check
from simverify.baselines.kept import comparable
from simverify.baselines.sweeps import sweep_check
from simverify.checks import MIN_ALPHA, MIN_DETECT, ranges_iv
from simverify.results import AuditRun, CompareRun, Document, SweepRun


def check_baseline(
    baseline: Document, run: Document, *, alpha: float = ALPHA, detect: float = DETECT
) -> Check:
    """Say whether ``run`` is worse than ``baseline``, by tests.

    Parameters
    ----------
    baseline, run
        Two comparisons, two audits of code, or two sweeps, of one question: the same gamma, models
        and rules. A sweep may have more cells than the baseline.
    alpha
        Probability that the tests call anything worse or better where nothing changed. The runs'
        verdicts are their own, each with its run's alpha.
    detect
        Relative drop of E[tau] that is found with power .9, or the verdict is INCONCLUSIVE.

    Returns
    -------
    Check
        ``verdict``: FAIL where something is worse; ``items``: each with its interval.

    Raises
    ------
    UsageError
        If the runs do not compare, in a line that says what differs; if a value is out of range.
    """
    ranges_iv((
        ("alpha", alpha, MIN_ALPHA <= alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
        ("detect", detect, MIN_DETECT <= detect < 1, f"{MIN_DETECT:g} or more, below 1"),
    ))  # fmt: skip
    old, new = comparable(baseline, "the baseline"), comparable(run, "the run")
    fit_iv(old, new)
    if isinstance(old, CompareRun) and isinstance(new, CompareRun):
        return comparison_check(old, new, alpha, detect)
    if isinstance(old, SweepRun) and isinstance(new, SweepRun):
        return sweep_check(old, new, alpha, detect).check
    assert isinstance(old, AuditRun)
    assert isinstance(new, AuditRun)
    sampled = sum(run.sampled.alpha for run in (old, new) if run.sampled is not None)
    return Check(tuple(audit_items(old, new)), alpha, detect, 0, verdicts=sampled)

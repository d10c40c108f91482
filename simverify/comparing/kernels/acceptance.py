"""How many tokens a kernel accepts: two questions that must not be mixed up.

*Lossy*: no lossless rule accepts more often than the optimum of its kind, so a kernel that
does is not lossless. *Not the declared rule*: a kernel whose accepted tokens leave the rule's
own law, or whose tokens after several calls do, may still be lossless.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.battery.judgement import Judgement, shown
from simverify.comparing.exact.curves import AcceptanceCurve, sample_bounds
from simverify.comparing.kernels.kernel import Trial
from simverify.simulators.run import Counts

DEVIATION = "shift of a Pr(tau >= l) out of its bounds"

NOT_JUDGED = "none, as the rule's own law is not known"


@dataclass(frozen=True, eq=False)
class Generations:
    """Lengths after 1.. calls, and their ``exact`` means, None where they are not known.

    ``eos`` says whether a token may end a generation before it has made all its calls.
    """

    counts: Counts
    exact: Sequence[float | Fraction] | None
    eos: bool


def lossy_test(trial: Trial, counts: Counts, alpha: float) -> stats.TestResult:
    """Test that first calls accept no more than the optimum, at every level of tau."""
    _, upper, alpha = _bounds(trial.optimum, trial.gamma, alpha)
    return stats.acceptance_test(
        counts.tail_counts,
        counts.trials,
        np.zeros_like(upper),
        upper,
        alpha=alpha,
        name="acceptance above the optimum",
    )


def lossy_finding(trial: Trial, test: stats.TestResult) -> str:
    """Return what a rejected :func:`lossy_test` means."""
    bounds = {
        "verify": "block verification's, which no lossless rule without state exceeds",
        "step": "the coupling bound, which no lossless rule exceeds",
        "tree": "the bound on such trees, which no lossless rule exceeds",
    }
    bound = bounds[trial.verifier.contract]
    return (
        f"lossy: Pr(tau >= {test.level}) is {test.statistic:.4f} above {bound} "
        f"(p = {shown(test.log_pvalue)})"
    )


def judge_acceptance(
    trial: Trial, counts: Counts, generations: Generations | None, shares: dict[str, float]
) -> Judgement:
    """Test accepted tokens against the rule's own law, and tokens after calls where known.

    Where nobody knows the law nothing is tested, nor said.
    """
    if trial.curve is None:
        return Judgement(tests=(), findings=(), detectable=0.0, deviation=NOT_JUDGED)
    lower, upper, alpha = _bounds(trial.curve, trial.gamma, shares["acceptance"])
    law = stats.acceptance_test(counts.tail_counts, counts.trials, lower, upper, alpha=alpha)
    tests, findings = [law], []
    if law.rejected:
        findings.append(
            f"Pr(tau >= {law.level}) is {abs(law.statistic):.4f} {law.direction} the rule's own "
            f"law (p = {shown(law.log_pvalue)})"
        )
    if generations is not None and generations.exact is not None:
        exact = np.array(generations.exact, dtype=np.float64)
        lengths = _lengths_test(trial, generations, exact, shares["calls"])
        tests.append(lengths)
        if lengths.rejected:
            findings.append(
                f"tokens after {lengths.level} calls are {abs(lengths.statistic):.4f} "
                f"{lengths.direction} their exact mean (p = {shown(lengths.log_pvalue)})"
            )
    return Judgement(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=acceptance_detectable(trial, counts.trials, shares["acceptance"]),
        deviation=DEVIATION,
    )


def acceptance_detectable(trial: Trial, blocks: int, alpha: float) -> float:
    """Shift of a Pr(tau >= l) found with power .9 by so many blocks.

    A level without room for a shift of ``trial.detect``, in a direction, promises nothing
    there: nothing of that size can happen.
    """
    if trial.curve is None:
        return 0.0
    lower, upper, alpha = _bounds(trial.curve, trial.gamma, alpha)
    lower = np.where(lower > trial.detect, lower, 0.0)
    upper = np.where(upper < 1.0 - trial.detect, upper, 1.0)
    if not lower.any() and (upper == 1.0).all():
        return 0.0
    return stats.acceptance_min_detectable(blocks, lower, upper, alpha=alpha)


def _bounds(curve: AcceptanceCurve, gamma: int, alpha: float) -> tuple[Floats, Floats, float]:
    """Bounds on the law of tau, and the level left for a test against them."""
    if curve.sample is None:
        return curve.lower, curve.upper, alpha
    # Statistical bounds: half of the share pays for them, split over the levels.
    return *sample_bounds(curve.sample, alpha / 2 / gamma), alpha / 2


def _lengths_test(
    trial: Trial, generations: Generations, exact: Floats, alpha: float
) -> stats.TestResult:
    counts = generations.counts
    sums, squares = counts.lengths
    calls = np.arange(1, len(sums) + 1)
    # Every call emits a token unless a generation has ended; what is above that is tested.
    least = np.ones_like(calls) if generations.eos else calls
    n = counts.trials
    test = stats.bounded_means_test(
        sums - n * least,
        squares - 2 * least * sums + n * least**2,
        n,
        exact - least,
        calls * (trial.gamma + 1) - least,
        alpha=alpha,
        name="tokens after calls",
    )
    return replace(test, deviation="shift of the mean tokens after calls")

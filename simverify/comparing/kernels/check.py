"""The sampled tier for the project's own compiled kernels: plan, run, test.

An exact check of a readable rule says nothing about the kernel that stands for it, so the
kernel itself is sampled always. Where contexts repeat the emitted tokens are counted by
position and context (``contexts``); where they do not, by randomised PITs (``pits``), and
the first of them with their whole rows (``streamed``).
Positions are a call's slots for a rule without state, and absolute positions in a
generation for a rule with state, whose slots follow no target (design: "lossless").
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from simverify import stats
from simverify.battery.judgement import Judgement
from simverify.battery.localise import Located
from simverify.battery.shares import kernel_shares
from simverify.comparing.kernels.acceptance import (
    Generations,
    acceptance_detectable,
    judge_acceptance,
    lossy_finding,
    lossy_test,
)
from simverify.comparing.kernels.contexts import certify_contexts, judge_contexts, predict_contexts
from simverify.comparing.kernels.kernel import Trial
from simverify.comparing.kernels.pits import judge_pits, predict_pits
from simverify.comparing.kernels.streamed import Streamed
from simverify.simulators.run import Counts

MIN_BLOCKS = 1_000_000
MIN_NGRAM_BLOCKS = 300_000
MAX_BLOCKS = 1 << 26

PILOT_BLOCKS = 1 << 15
PILOT_SHARE = 16
"""A run is planned on a pilot of at least one in so many of its trials."""

PILOT_TRIALS = 1 << 61
"""First trial of pilot runs: they size a run and never enter its tests."""

MARGIN = 0.98
"""Share of the deviation to detect that is planned for: a run's tokens differ from a pilot's."""

CONTEXT_MARGIN = 0.94
"""The same where contexts count, some of them rarely reached: of 60 runs the worst found 1.03 times
what it was planned for.
"""

CERTIFICATE_DELTA = 1e-3


@dataclass(frozen=True, eq=False)
class SampledCheck:
    """Tests of one kernel on ``counts``, which took ``seconds`` to simulate.

    ``lossless`` judges its tokens, and acceptance above the optimum; ``acceptance`` whether
    it accepts as the declared rule does.
    """

    counts: Counts
    lossless: Judgement
    acceptance: Judgement
    certificate: stats.Certificate
    seconds: float

    @property
    def tests(self) -> tuple[stats.TestResult, ...]:
        """All tests, those of the declared rule last."""
        return self.lossless.tests + self.acceptance.tests

    @property
    def findings(self) -> tuple[str, ...]:
        """All findings, in words."""
        return self.lossless.findings + self.acceptance.findings


def plan_blocks(trial: Trial, *, calls: bool = False) -> int:
    """Return how many first calls make the intervals narrow and the acceptance test sharp."""
    floor = MIN_BLOCKS if trial.markov else MIN_NGRAM_BLOCKS
    alpha = _shares(trial, calls=calls)["acceptance"]
    return _enough(floor, trial.detect, lambda blocks: acceptance_detectable(trial, blocks, alpha))


def plan_trials(trial: Trial, *, calls: bool = False) -> int:
    """Return how many trials find a deviation of ``trial.detect`` with power .9.

    Sized on a pilot run of other trials; where contexts count and the run turns out long, on
    a longer one, since rarely visited contexts do not show in a short one. Up to
    ``MAX_BLOCKS``, from a floor that makes the intervals narrow; the floor where more trials
    would not keep the promise.
    """
    floor, least = plan_blocks(trial, calls=calls), PILOT_BLOCKS
    if not trial.by_slot:
        # A generation fills all its positions: fewer give as many tokens.
        floor, least = max(floor // trial.gamma, 1), least // trial.gamma
    shares = _shares(trial, calls=calls)
    predict = predict_contexts if trial.by_context else predict_pits
    margin = CONTEXT_MARGIN if trial.by_context else MARGIN
    size, trials = least, floor
    for first in (PILOT_TRIALS, PILOT_TRIALS + MAX_BLOCKS):
        pilot = trial.run(size, first)
        trials = _enough(
            floor,
            margin * trial.detect,
            lambda n, pilot=pilot: predict(trial, pilot, n, shares),  # type: ignore[misc]
        )
        size = trials // PILOT_SHARE
        if size <= least or not trial.by_context:
            break
    return trials


def _enough(floor: int, detect: float, detectable: Callable[[int], float]) -> int:
    """Return the first number, in steps of a twentieth, that detects small enough a deviation.

    ``floor`` if it is enough or if none up to ``MAX_BLOCKS`` is.
    """
    steps = [floor]
    while steps[-1] < MAX_BLOCKS:
        steps.append(max(steps[-1] * 21 // 20, steps[-1] + 1))
    low, high = 0, len(steps) - 1
    if detectable(steps[low]) <= detect or detectable(steps[high]) > detect:
        return floor
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(steps[middle]) <= detect else (middle, high)
    return steps[high]


def sampled_check(
    trial: Trial,
    trials: int,
    first_calls: Counts | None = None,
    generations: Generations | None = None,
) -> SampledCheck:
    """Run and test the kernel.

    ``first_calls`` are counts of first calls by slot for the acceptance tests of a rule with
    state, whose own run keeps only the tokens of whole generations. ``generations`` are the tokens
    after several calls, where they were asked for and are known exactly.
    """
    clock = time.perf_counter()
    counts = trial.run(trials)
    seconds = time.perf_counter() - clock
    first = first_calls or counts
    shares = _shares(trial, calls=generations is not None)
    if trial.by_context:
        lossless = judge_contexts(trial, counts, shares, first_calls)
    else:
        lossless = judge_pits(trial, counts, shares, Streamed.of(trial, trials))
    lossy = lossy_test(trial, first, shares["lossy"])
    findings, located = lossless.findings, lossless.located
    if lossy.rejected:
        findings += (lossy_finding(trial, lossy),)
        if located is None or located.part is None:
            located = Located("accept", None, "more is accepted than any lossless rule may accept")
    return SampledCheck(
        counts,
        replace(lossless, tests=(*lossless.tests, lossy), findings=findings, located=located),
        judge_acceptance(trial, first, generations, shares),
        _certificate(trial, counts),
        seconds,
    )


def _shares(trial: Trial, *, calls: bool) -> dict[str, float]:
    return kernel_shares(trial.alpha, calls=calls)


def _certificate(trial: Trial, counts: Counts) -> stats.Certificate:
    if trial.by_context:
        return certify_contexts(trial, counts, CERTIFICATE_DELTA)
    return stats.monotone_certificate(counts.pits[0].sum(axis=0), delta=CERTIFICATE_DELTA)

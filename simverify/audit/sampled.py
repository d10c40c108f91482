"""The sampled tier for the project's own compiled kernels: plan, run, test.

An exact check of a readable rule says nothing about the kernel that stands for it, so the
kernel itself is sampled always. Where contexts repeat the emitted tokens are counted by
position and context (G2); where they do not, by randomised PITs (KS), in q/p and in token
order. Positions are a call's slots for a rule without state, and absolute positions in a
generation for a rule with state, whose slots follow no target (design: "lossless").
"""

import time
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.audit.curves import AcceptanceCurve, sample_bounds
from simverify.models.base import MarkovModel, Model
from simverify.simulators.run import PIT_BINS, Counts, simulate
from simverify.verifiers import Verifier

MAX_TRANSITION_VOCAB = 4096
"""Beyond it contexts repeat too thinly for counts by context; PITs are used."""

MIN_BLOCKS = 1_000_000
MIN_PIT_BLOCKS = 300_000
MAX_BLOCKS = 1 << 26
PILOT_BLOCKS = 1 << 15
PILOT_TRIALS = 1 << 61
"""First trial of pilot runs: they size a run and never enter its tests."""

CERTIFICATE_DELTA = 1e-3


@dataclass(frozen=True, eq=False)
class Trial:
    """One verifier's kernel on one model: what to run, and with what share of alpha."""

    verifier: Verifier
    model: Model
    tables: Any
    gamma: int
    curve: AcceptanceCurve
    alpha: float
    detect: float
    seed: int
    threads: int

    @property
    def by_context(self) -> bool:
        """Whether contexts repeat, so that tokens are counted by context."""
        return isinstance(self.model, MarkovModel) and self.model.vocab_size <= MAX_TRANSITION_VOCAB

    @property
    def positions(self) -> int:
        """How many positions are judged: the slots of a call, or twice gamma tokens."""
        return self.gamma + 1 if self.verifier.contract == "verify" else 2 * self.gamma

    @property
    def rows(self) -> npt.NDArray[np.float64]:
        """Target rows (S+1, V) in the order of the counts."""
        assert isinstance(self.model, MarkovModel)
        return np.vstack([self.model.target_rows, self.model.target_start])

    def run(self, trials: int, first_trial: int = 0) -> Counts:
        """Count the tokens of ``trials`` calls, or generations for a rule with state."""
        shape = (self.positions, *self.rows.shape) if self.by_context else (0, 1, 1)
        return simulate(
            self.tables,
            self.verifier.name,
            self.gamma,
            trials,
            first_trial=first_trial,
            seed=self.seed,
            threads=self.threads,
            # Every call emits a token, so this many calls fill the positions.
            calls=1 if self.verifier.contract == "verify" else self.positions,
            transition_shape=shape,
            pit_positions=0 if self.by_context else self.positions,
        )


@dataclass(frozen=True, eq=False)
class SampledCheck:
    """Tests of one kernel on ``counts``, which took ``seconds`` to simulate.

    ``detectable``: mean one-token TV found with power .9; see ``deviation``.
    """

    counts: Counts
    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    deviation: str
    certificate: stats.Certificate
    seconds: float


def min_blocks(trial: Trial) -> int:
    """Blocks that make the intervals narrow, whatever the power needs."""
    return MIN_BLOCKS if trial.by_context else MIN_PIT_BLOCKS


def plan_trials(trial: Trial) -> int:
    """Return how many trials find a mean one-token TV of ``trial.detect`` with power .9.

    Sized on a pilot run of other trials, up to ``MAX_BLOCKS``; in steps of a fifth, from a
    floor that makes the intervals narrow.
    """
    pilot = trial.run(PILOT_BLOCKS, PILOT_TRIALS)
    floor = min_blocks(trial)
    # A generation of a rule with state fills all its positions: fewer give as many tokens.
    trials = floor if trial.verifier.contract == "verify" else floor // trial.gamma
    predict = _predict_transitions if trial.by_context else _predict_pits
    while predict(trial, pilot, trials / PILOT_BLOCKS) > trial.detect and trials < MAX_BLOCKS:
        trials = trials * 6 // 5
    return trials


def sampled_check(trial: Trial, trials: int, first_calls: Counts | None = None) -> SampledCheck:
    """Run and test the kernel.

    ``first_calls`` are counts of first calls for the acceptance test of a rule with state,
    whose own run keeps only the tokens of whole generations.
    """
    clock = time.perf_counter()
    counts = trial.run(trials)
    seconds = time.perf_counter() - clock
    shares = stats.split_alpha(trial.alpha, {"output": 3, "acceptance": 1})
    judge = _judge_transitions if trial.by_context else _judge_pits
    tests, findings, detectable, deviation, certificate = judge(trial, counts, shares["output"])
    acceptance = _acceptance(trial, first_calls or counts, shares["acceptance"])
    findings += [f"{test.name}: p = {_shown(test.log_pvalue)}" for test in tests if test.rejected]
    if acceptance.rejected:
        findings.append(
            f"Pr(tau >= {acceptance.level}) is {acceptance.direction} the rule's own law: "
            "the kernel is not the declared rule"
        )
    return SampledCheck(
        counts, (*tests, acceptance), tuple(findings), detectable, deviation, certificate, seconds
    )


def _shown(log_pvalue: float) -> str:
    return "0" if log_pvalue == -np.inf else f"1e{log_pvalue / np.log(10):.0f}"


def _acceptance(trial: Trial, counts: Counts, alpha: float) -> stats.TestResult:
    lower, upper = trial.curve.lower, trial.curve.upper
    if trial.curve.sample is not None:
        # Statistical bounds: half of the share pays for them, split over the levels.
        alpha /= 2
        lower, upper = sample_bounds(trial.curve.sample, 1 - alpha / trial.gamma)
    return stats.acceptance_test(counts.tail_counts, counts.trials, lower, upper, alpha=alpha)


def _slot(trial: Trial, position: int) -> str:
    kind = "slot" if trial.verifier.contract == "verify" else "position"
    return f"{kind} {position + 1}"


Judgement = tuple[list[stats.TestResult], list[str], float, str, stats.Certificate]


def _judge_transitions(trial: Trial, counts: Counts, alpha: float) -> Judgement:
    rows = trial.rows
    findings = []
    parts: dict[str, stats.G2] = {}
    for position, table in enumerate(counts.transitions):
        support = stats.support_violations(table, rows)
        if support.first is not None:
            context, token, count = support.first
            findings.append(
                f"support, {_slot(trial, position)}: token {token} of probability 0 emitted "
                f"{count} times in context {context}"
            )
        if table.any():
            g2 = stats.transition_g2(table, rows)
            if g2.df > 0:
                parts[f"transitions, {_slot(trial, position)}"] = g2
    # One test of all positions holds the promised power; one of each tells where.
    pooled = reduce(add, parts.values()) if parts else None
    tests = []
    if pooled is not None:
        shares = stats.split_alpha(
            alpha, {"transitions": 2 * len(parts), **dict.fromkeys(parts, 1.0)}
        )
        tests = [
            stats.g2_test(g2, alpha=shares[name], name=name)
            for name, g2 in [("transitions", pooled), *parts.items()]
        ]
    stacked = counts.transitions.reshape(-1, rows.shape[1])
    certificate = stats.plug_in_certificate(
        stacked, np.tile(rows, (trial.positions, 1)), delta=CERTIFICATE_DELTA
    )
    detectable = _detectable(counts.transitions, rows, tests)
    return tests, findings, detectable, "mean one-token TV", certificate


def _detectable(
    transitions: npt.NDArray[np.int64],
    rows: npt.NDArray[np.float64],
    tests: list[stats.TestResult],
) -> float:
    """Mean one-token TV over all tokens that is found with power .9."""
    total = int(transitions.sum())
    visited = transitions.sum(axis=(0, 2)) > 0
    if ((rows[visited] > 0).sum(axis=1) == 1).all():
        # One-hot rows: whatever deviates is off the support, and one such token is seen.
        return min(1.0, float(np.log(10)) / total)
    if not tests:
        return float("inf")
    # Tokens of positions too thin to be tested may deviate unseen.
    return tests[0].min_detectable + (total - tests[0].n) / total


def _judge_pits(trial: Trial, counts: Counts, alpha: float) -> Judgement:
    findings = []
    if counts.unsupported:
        findings.append(f"support: {counts.unsupported} tokens of probability 0 emitted")
    histograms = {
        (order, position): counts.pits[order, position]
        for order in range(2)
        for position in range(trial.positions)
        if counts.pits[order, position].any()
    }
    names = ("q/p order", "token order")
    tests = {
        (order, position): stats.pit_ks(
            histogram,
            alpha=alpha / len(histograms),
            name=f"PIT in {names[order]}, {_slot(trial, position)}",
        )
        for (order, position), histogram in histograms.items()
    }
    detectable = _weighted(
        [(test.n, test.min_detectable) for (order, _), test in tests.items() if order == 0]
    )
    certificate = stats.monotone_certificate(counts.pits[0].sum(axis=0), delta=CERTIFICATE_DELTA)
    deviation = "mean one-token TV, monotone in one of the orders"
    return list(tests.values()), findings, detectable, deviation, certificate


def _weighted(parts: list[tuple[int, float]]) -> float:
    """Mean TV that must exceed some position's own limit, whichever it falls on."""
    total = sum(n for n, _ in parts)
    return sum(n * min(limit, 1.0) for n, limit in parts) / total


def _predict_transitions(trial: Trial, pilot: Counts, scale: float) -> float:
    """Detectable TV of a run ``scale`` times the pilot, from expected counts alone."""
    rows = trial.rows
    shares = stats.split_alpha(trial.alpha, {"output": 3, "acceptance": 1})
    parts = []
    for table in pilot.transitions:
        expected = np.rint(table.sum(axis=1, keepdims=True) * scale * rows).astype(np.int64)
        if expected.any():
            parts.append(stats.transition_g2(expected, rows))
    total = reduce(add, parts)
    if total.df == 0:
        return 0.0
    limit = stats.g2_min_detectable(total.df, total.n, alpha=shares["output"] * 2 / 3)
    return limit + total.unresolved / total.n


def _predict_pits(trial: Trial, pilot: Counts, scale: float) -> float:
    alpha = stats.split_alpha(trial.alpha, {"output": 3, "acceptance": 1})["output"]
    totals = pilot.pits[0].sum(axis=1)
    used = int((totals > 0).sum())
    return _weighted(
        [
            (n, stats.ks_min_detectable(n, alpha=alpha / (2 * used), bins=PIT_BINS))
            for n in (int(total * scale) for total in totals)
            if n > 0
        ]
    )

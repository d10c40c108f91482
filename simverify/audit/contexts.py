"""Emitted tokens where contexts repeat: counted by position and context, judged by G2.

Promised is a mean one-token TV over all tokens, however it is spread. A deviation beyond the
promise either shows between the pooled cells of tested rows (G2 over all positions), or in
the rows that nearly always draw the same token (rare tokens), or in tokens of probability 0
(support); each of them has power .9 for its part. What none of them sees is added in full.
"""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from simverify import stats
from simverify.audit.judgement import Judgement, rejections
from simverify.audit.shares import context_shares
from simverify.audit.trial import Trial
from simverify.simulators.run import Counts

DEVIATION = "mean one-token TV"


def judge_contexts(trial: Trial, counts: Counts, alpha: float) -> Judgement:
    """Test the tokens of every position against the rows of their contexts."""
    shares = context_shares(alpha)
    each = {name: shares[name] / trial.positions for name in ("positions", "rare")}
    parts: list[stats.G2] = []
    tests: list[stats.TestResult] = []
    findings = []
    for index, table in enumerate(counts.transitions):
        if not table.any():
            continue
        where = trial.position(index)
        support = stats.support_violations(table, trial.rows)
        if support.first is not None:
            context, token, count = support.first
            findings.append(
                f"support, {where}: token {token} of probability 0 emitted {count} times in "
                f"context {context}"
            )
        g2 = stats.transition_g2(table, trial.rows)
        parts.append(g2)
        if g2.df > 0:
            name = f"transitions, {where}"
            tests.append(stats.g2_test(g2, alpha=each["positions"], name=name))
        if g2.rare is not None:
            name = f"rare tokens, {where}"
            tests.append(stats.rare_test(g2.rare, alpha=each["rare"], name=name))
    # One test of all positions holds the promised power; one of each tells where.
    pooled = reduce(add, parts)
    if pooled.df > 0:
        tests.insert(0, stats.g2_test(pooled, alpha=shares["transitions"], name="transitions"))
    return Judgement(
        tests=tuple(tests),
        findings=(*findings, *rejections(tests)),
        detectable=_detectable(trial, parts, shares),
        deviation=DEVIATION,
    )


def predict_contexts(trial: Trial, pilot: Counts, trials: int, alpha: float) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the contexts a pilot met."""
    totals = np.rint(pilot.transitions.sum(axis=2) * (trials / pilot.trials)).astype(np.int64)
    parts = [stats.expected_g2(slot, trial.rows) for slot in totals if slot.any()]
    return _detectable(trial, parts, context_shares(alpha)) if parts else math.inf


def _detectable(trial: Trial, parts: Sequence[stats.G2], shares: dict[str, float]) -> float:
    total = reduce(add, parts)
    hidden = total.unresolved
    for part in parts:
        if part.rare is not None:
            alpha = shares["rare"] / trial.positions
            hidden += stats.rare_hidden(part.rare, alpha=alpha) - part.rare.n
    if (trial.rows == 0.0).any():
        # So many tokens off the support are expected before one is seen with power .9.
        hidden += math.log(10.0)
    found = 0.0
    if total.df > 0:
        found = stats.g2_min_detectable(total.df, total.n, alpha=shares["transitions"])
    found += hidden / total.n
    return found if found < 1.0 else math.inf

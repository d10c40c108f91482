"""The battery: emitted tokens, counted by position and context, on trial at a share of alpha.

Half of alpha goes to the likelihood ratios of named faults, a quarter to the score bank, and
a quarter to the rest: support, G2 over all positions and in each, rare tokens, and what the
callers judge beside. Promised is a mean one-token TV over all tokens, however it is spread. A
deviation beyond the promise either shows between the pooled cells of tested rows (G2 over all
positions), or in the rows that nearly always draw the same token (rare tokens), or in tokens
of probability 0 (support); each of them has its power. What none of them sees is added in
full.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.battery.fault_rows import FaultCounts
from simverify.battery.naming import ratio_tests

RARE_BELOW = 0.01
"""Tokens below this probability are the tail that the score bank counts."""

_MAX_DUAL = 2048
"""Most cells for which the dual certificate is worked out: it takes a millisecond for four."""


@dataclass(frozen=True, eq=False)
class Slot:
    """Tokens of one position: ``counts`` int64, target and draft rows float64 (contexts, V).

    The draft row of a bonus slot is the draft's after the same prefix.
    """

    name: str
    counts: Ints
    target: Floats
    draft: Floats


@dataclass(frozen=True, eq=False)
class Battery:
    """Tests of the tokens, and support ``violations`` in words, which cost no alpha.

    ``detectable``: mean one-token TV found with the run's power. ``by_slot``: log p-value of
    each slot's own test, 0 where it had too few tokens, -inf where support was violated.
    """

    tests: tuple[stats.TestResult, ...]
    violations: tuple[str, ...]
    detectable: float
    by_slot: tuple[float, ...]


def judge_tokens(
    slots: Sequence[Slot],
    faults: FaultCounts | None,
    shares: dict[str, float],
    *,
    fraction: float = 1.0,
    last: bool = True,
    power: float = 0.9,
) -> Battery:
    """Judge the tokens of all ``slots``, and the likelihood ratios of ``faults``.

    ``shares``: levels of "ratios", "scores", "transitions", "positions" and "rare", and "gate"
    in a run of several looks (:mod:`simverify.battery.shares`). This look spends ``fraction`` of
    them, but for "gate", which all looks share, and "ratios", which the ``last`` one spends.
    """
    here = {name: share * fraction for name, share in shares.items()}
    tests = [] if faults is None else ratio_tests(faults, shares, last=last)
    tests += score_tests(slots, here["scores"])
    each = {name: here[name] / len(slots) for name in ("positions", "rare")}
    parts, by_slot, beside, violations = [], [], [], []
    for slot in slots:
        if not slot.counts.any():
            by_slot.append(0.0)
            continue
        violation = _violation(slot)
        violations += [violation] if violation else []
        g2 = stats.transition_g2(slot.counts, slot.target)
        parts.append(g2)
        found = []
        if g2.df > 0:
            name = f"transitions, {slot.name}"
            found.append(stats.g2_test(g2, alpha=each["positions"], name=name))
        if g2.rare is not None:
            name = f"rare tokens, {slot.name}"
            found.append(stats.rare_test(g2.rare, alpha=each["rare"], name=name))
        beside += found
        log_p = min((test.log_pvalue for test in found), default=0.0)
        by_slot.append(-math.inf if violation else log_p)
    # One test of all positions holds the promised power; one of each tells where.
    pooled = reduce(add, parts)
    if pooled.df > 0:
        tests.append(stats.g2_test(pooled, alpha=here["transitions"], name="transitions"))
    return Battery(
        tests=(*tests, *beside),
        violations=tuple(violations),
        detectable=detectable(parts, slots, here, power=power),
        by_slot=tuple(by_slot),
    )


def score_tests(slots: Sequence[Slot], alpha: float) -> Iterator[stats.TestResult]:
    """Test every score over all slots, with half of ``alpha``, and in each slot."""
    bank = tuple(_bank(slots))
    share = stats.split_alpha(alpha, {"pooled": 1.0, "each": 1.0})
    for name, parts in bank:
        pooled, each = share["pooled"] / len(bank), share["each"] / len(bank) / len(slots)
        moved = [(slot, sums) for slot, sums in zip(slots, parts, strict=True) if sums is not None]
        if not moved:
            continue
        yield _score_test(reduce(add, (sums for _, sums in moved)), pooled, f"score {name}")
        if len(moved) > 1:
            for slot, sums in moved:
                yield _score_test(sums, each, f"score {name}, {slot.name}")


_Sums = stats.ScoreSums | stats.IndicatorSums


def _bank(slots: Sequence[Slot]) -> Iterator[tuple[str, list[_Sums | None]]]:
    """Each score's sums by slot, None where no token could have moved it."""
    values = {"min(1, q/p)": stats.accept, "(q-p)/(q+p)": stats.contrast}
    for name, score in values.items():
        yield name, [_score_sums(slot, score(slot.target, slot.draft)) for slot in slots]
    yield "-log p", [_score_sums(slot, stats.surprise(slot.target)) for slot in slots]
    yield "q > p", [_indicators(slot, stats.q_above_p(slot.target, slot.draft)) for slot in slots]
    below = f"p < {RARE_BELOW:g}"
    yield below, [_indicators(s, stats.rare_token(s.target, below=RARE_BELOW)) for s in slots]


def _score_sums(slot: Slot, scores: Floats) -> _Sums | None:
    if not slot.counts.any():
        return None
    sums = stats.score_sums_of_contexts(slot.counts, slot.target, scores)
    return sums if score_moves(sums) else None


def score_moves(sums: stats.ScoreSums) -> bool:
    """Whether any token could have moved the score."""
    # Equal scores differ by rounding alone, and certain tokens have a rounding's variance.
    return sums.ranges > 1e-9 * sums.n and sums.variance > 1e-6 * sums.width**2


def _indicators(slot: Slot, members: npt.NDArray[np.bool_]) -> _Sums | None:
    if not slot.counts.any():
        return None
    sums = stats.indicator_sums_of_contexts(slot.counts, slot.target, members)
    return sums if sums.variance > 0.0 else None


def _score_test(sums: _Sums, alpha: float, name: str) -> stats.TestResult:
    if isinstance(sums, stats.IndicatorSums):
        return stats.indicator_test(sums, alpha=alpha, name=name)
    return stats.score_test(sums, alpha=alpha, name=name)


def _violation(slot: Slot) -> str:
    support = stats.support_violations(slot.counts, slot.target)
    if support.first is None:
        return ""
    context, token, count = support.first
    return (
        f"support, {slot.name}: token {token} of probability 0 emitted {count} times in "
        f"context {context}"
    )


def detectable(
    parts: Sequence[stats.G2], slots: Sequence[Slot], shares: dict[str, float], *, power: float
) -> float:
    """Mean one-token TV found with this power; inf if that is nothing.

    ``parts``: the G2s of slots with tokens, seen or expected; ``shares``: of this look.
    """
    total = reduce(add, parts)
    hidden = total.unresolved
    for part in parts:
        if part.rare is not None:
            alpha = shares["rare"] / len(slots)
            hidden += stats.rare_hidden(part.rare, alpha=alpha, power=power) - part.rare.pooled
    if any((slot.target == 0.0).any() for slot in slots):
        # So many tokens off the support are expected before one is seen with this power.
        hidden -= math.log(1.0 - power)
    found = 0.0
    if total.df > 0:
        alpha = shares["transitions"]
        found = stats.g2_min_detectable(total.df, total.n, alpha=alpha, power=power)
    found += hidden / total.n
    return found if found < 1.0 else math.inf


def certify(slots: Sequence[Slot], *, delta: float) -> stats.Certificate:
    """Bound the mean one-token TV: the better of the plug-in and, on few cells, the dual bound."""
    counts = np.concatenate([slot.counts for slot in slots])
    rows = np.concatenate([slot.target for slot in slots])
    seen = counts.any(axis=1)
    counts, rows = counts[seen], rows[seen]
    if counts.size > _MAX_DUAL:
        return stats.plug_in_certificate(counts, rows, delta=delta)
    return stats.best_certificate(
        stats.plug_in_certificate(counts, rows, delta=delta / 2.0),
        stats.dual_certificate(counts, rows, delta=delta / 2.0),
    )

"""The battery: emitted tokens, counted by position and context, tested at a share of alpha.

Half of alpha goes to the likelihood ratios of named faults, a quarter to the score bank, and
a quarter to the rest: support, G2 over all positions and in each, rare tokens, and what the
callers judge beside. Promised is a mean one-token TV over all tokens, however it is spread. A
deviation beyond the promise shows between the pooled cells of tested rows (G2 over all
positions), or in the rows that nearly always draw the same token (rare tokens), or in tokens
of probability 0 (support); each of them has its power. What none of them sees is added in
full.

The shares, the documents of tests, the diagnosis of faults and the tests of real models' tokens,
whose contexts never repeat, are here too.
"""

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, reduce
from importlib.metadata import version
from operator import add
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from simverify import results, stats
from simverify.arrays import Floats, Ints
from simverify.faults import FAULTS
from simverify.faults.base import Fault
from simverify.faults.catalogue import get_fault
from simverify.results import Verdict
from simverify.stats.counts import MIN_TABLE
from simverify.stats.pits import MIN_PAIRS
from simverify.stats.planning import BATTERY

if TYPE_CHECKING:
    from simverify.simulators.run import Features

# Catalogued faults and counted tokens: which faults a context tells apart, and their rows.
#
# The law of a fault's slot (:mod:`simverify.faults.base`) may ask for rows and tokens
# that came before. A context that holds the whole prefix serves all of them; one that holds the
# last token serves those that read their own two rows.


MAX_TESTED_FAULTS = 15
"""Faults that are tested, each at five strengths: alpha pays for every one of them.

The others are named and refuted, which costs no alpha.
"""

_TEST_ORDER = (
    "target-residual",
    "reused-uniform",
    "inverted-ratio",
    "scaled-acceptance(1.1)",
    "wrong-bonus-row",
    "previous-row",
    "one-uniform",
    "draft-leak(1)",
    "draft-temperature(0.9)",
    "target-temperature(0.9)",
    "one-hot-residual",
    "double-chance",
    "unnormalised-residual",
    "softmax-residual",
    "truncated-draft-soft-q",
    "residual-row-zero",
    "top-k-residual(1)",
    "argmax-draft-soft-q",
    "typical-acceptance",
)
"""What is tested first. A leak of any share is draft-leak(1) at that strength."""

_ROW_ROUNDING = 1e-12

_NEEDS_PREFIX = frozenset(("wrong-bonus-row", "previous-row", "one-uniform", "naive-block-stealth"))
_NEEDS_FIRST_ROW = frozenset(("residual-row-zero",))


@cache
def detectable_faults(*, prefix: bool, first_row: bool) -> tuple[Fault, ...]:
    """Return the faults whose slots follow from what a context holds, those to test first.

    ``prefix``: all tokens before, and their rows; ``first_row``: the rows of the call's first
    slot. Every context holds the slot's own rows.
    """
    others = [name for name in FAULTS if name not in (*_TEST_ORDER, "draft-leak(0.01)")]
    missing = frozenset() if prefix else _NEEDS_PREFIX
    if not (prefix or first_row):
        missing |= _NEEDS_FIRST_ROW
    faults = [get_fault(name) for name in (*_TEST_ORDER, *others) if name not in missing]
    return tuple(fault for fault in faults if fault.law is not None)


@dataclass(frozen=True, eq=False)
class FaultCounts:
    """Tokens by context, and what each fault would emit there; slots are further contexts.

    ``counts`` int64 and ``target`` float64 (contexts, V); ``rows`` float64 (M, contexts, V),
    the laws of the M faults in ``names``; rows sum to 1.
    """

    names: tuple[str, ...]
    counts: Ints
    target: Floats
    rows: Floats

    @property
    def telling(self) -> tuple[int, ...]:
        """Indices of the faults that emit anything but the target in these contexts."""
        return tuple(m for m, rows in enumerate(self.rows) if (rows != self.target).any())

    def mixed_rows(self, fault: int, strength: float) -> Floats:
        """Return the rows of a fault's mixture with the target."""
        mixed: Floats = (1.0 - strength) * self.target + strength * self.rows[fault]
        return mixed

    def within(self, contexts: npt.NDArray[np.bool_]) -> "FaultCounts":
        """Return the counts and rows of some ``contexts``, bool (contexts,)."""
        return FaultCounts(
            self.names, self.counts[contexts], self.target[contexts], self.rows[:, contexts]
        )


def fault_counts(
    faults: Sequence[Fault], parts: Iterable[tuple[Ints, Floats, Floats]]
) -> FaultCounts:
    """Stack ``parts``: counts (contexts, V), target rows, and rows of the faults; drop the unseen.

    Likelihood ratios are conditional on the contexts' totals, so that one without a token
    says nothing.
    """
    counts, targets, laws = zip(*parts, strict=True)
    stacked = np.concatenate(counts)
    seen = stacked.any(axis=1)
    target, rows = np.concatenate(targets)[seen], np.concatenate(laws, axis=1)[:, seen]
    # A row that is the target's but for rounding is the target's: ratios of rounding are no
    # evidence, and their sums reach their maximum.
    same = np.abs(rows - target).max(axis=2, keepdims=True) < _ROW_ROUNDING
    names = tuple(fault.name for fault in faults)
    return FaultCounts(names, stacked[seen], target, np.where(same, target, rows))


def slot_rows(
    faults: Sequence[Fault],
    target_probs: Floats,
    draft_probs: Floats,
    prefixes: Sequence[Sequence[int]],
) -> Floats:
    """Rows of the faults (M, contexts, V) in slot len(prefix) of a call.

    ``target_probs`` (contexts, gamma+1, V), ``draft_probs`` (contexts, gamma, V); rows beyond
    the slot are not read. A prefix that a fault never emits gives the target's own row.
    """
    rows = np.empty((len(faults), len(prefixes), target_probs.shape[2]))
    with np.errstate(all="ignore"):
        for m, fault in enumerate(faults):
            assert fault.law is not None
            for c, prefix in enumerate(prefixes):
                row = np.maximum(fault.law(target_probs[c], draft_probs[c], prefix), 0.0)
                row /= row.sum()
                rows[m, c] = row if np.isfinite(row).all() else target_probs[c, len(prefix)]
    return rows


def single_slot_rows(faults: Sequence[Fault], target: Floats, draft: Floats) -> Floats:
    """Rows of faults that read their own slot's alone, ``target`` and ``draft`` (contexts, V)."""
    both = np.stack([target, target], axis=1)
    return slot_rows(faults, both, draft[:, None], [()] * len(target))


# The diagnosis: which catalogued faults counted tokens refute, and which one they fit best.


REFUTATION_BETA = 1e-3
"""Rate at which a fault that is there, at the strength named, is refuted."""

_MIN_EXPLAINED = 0.75
"""Part of the deviation from which on a fault explains it."""

_MIN_LOG_EVALUE = math.log(1e4)
"""Log e-value from which on a best fit is more than the best of many."""


@dataclass(frozen=True)
class FaultDiagnosis:
    """What the tokens say of the catalogue.

    ``refuted``: faults, each at the smallest strength from which on its mixtures with the
    target are refuted at ``REFUTATION_BETA``; ``not_refuted``: the other faults, but for those that
    emit nothing but the target in these contexts. ``best``: the mixture with the largest
    likelihood, None where nothing was asked or found; ``explains``: the part of the excess of the
    target's G2 that its own G2 lacks; where contexts do not repeat, of the PITs' excess over
    uniform. Both are a diagnosis, without an error rate.
    """

    refuted: tuple[stats.FaultAtStrength, ...]
    not_refuted: tuple[str, ...]
    best: stats.FaultAtStrength | None
    explains: float

    @property
    def fits(self) -> bool:
        """Whether the best fault is there, as far as one can see, and explains the deviation."""
        best = self.best
        return (
            best is not None
            and best.log_evalue >= _MIN_LOG_EVALUE
            and self.explains >= _MIN_EXPLAINED
        )


def diagnose_faults(tables: Sequence[FaultCounts], *, diagnose: bool) -> FaultDiagnosis:
    """Pool ``tables`` of the same faults, slot by slot of single calls.

    ``diagnose``: name the best fit. It says nothing where no test rejected, nor of a rule with
    state, whose slots need not follow the target; there a fault can be refuted all the same,
    since its own slots have a law.
    """
    sums = reduce(
        add, (stats.ratio_sums(t.counts, t.target, t.rows, names=t.names) for t in tables)
    )
    result = stats.ratio_gate(sums, alpha=0.5, beta=REFUTATION_BETA)
    faults = {table.names[m] for table in tables for m in table.telling}
    standing = tuple(fault for fault in result.not_refuted if fault in faults)
    best = _best_mixture(tables, sums) if diagnose else None
    explains = 0.0 if best is None else _explained_share(tables, best)
    return FaultDiagnosis(result.refuted, standing, best, explains)


def _best_mixture(
    tables: Sequence[FaultCounts], sums: stats.RatioSums
) -> stats.FaultAtStrength | None:
    """Mixture with the largest likelihood; ratios to a target that excludes a token are inf."""
    logs = np.array(
        [
            [sum(_mixture_log_likelihood(table, m, d) for table in tables) for d in stats.STRENGTHS]
            for m in range(len(sums.names))
        ]
    )
    m, s = np.unravel_index(int(logs.argmax()), logs.shape)
    log_evalue = float(sums.log_evalues[m, s])
    if not log_evalue > 0.0:
        return None
    strength = stats.STRENGTHS[s]
    return stats.FaultAtStrength(fault=sums.names[m], strength=strength, log_evalue=log_evalue)


def _mixture_log_likelihood(table: FaultCounts, fault: int, strength: float) -> float:
    seen = table.counts > 0
    with np.errstate(divide="ignore"):
        return float(table.counts[seen] @ np.log(table.mixed_rows(fault, strength)[seen]))


def _explained_share(tables: Sequence[FaultCounts], best: stats.FaultAtStrength) -> float:
    """Part of the excess of the target's G2 over its mean that the mixture's does not have."""

    def excess(rows: Sequence[Floats], noise: float) -> float:
        parts = (stats.transition_g2(t.counts, r) for t, r in zip(tables, rows, strict=True))
        g2 = reduce(add, parts)
        return max(g2.statistic - g2.df - noise * math.sqrt(2.0 * g2.df), 0.0)

    whole = excess([table.target for table in tables], 0.0)
    mixed = [t.mixed_rows(t.names.index(best.fault), best.strength) for t in tables]
    # What two standard deviations of chance make is not left unexplained.
    left = excess(mixed, 2.0)
    return max(0.0, 1.0 - left / whole) if whole > 0.0 else 0.0


def ratio_tests(
    table: FaultCounts, shares: dict[str, float], *, last: bool
) -> list[stats.TestResult]:
    """Test the target against the first faults of ``table``.

    ``shares`` holds "gate" where the run has several looks: an e-process, whose share is spent
    once for all looks; and "ratios": the test of fixed size, asked at the ``last`` look alone.
    """
    # Of a row with one possible token the support test sees all there is to see.
    table = table.within((table.target > 0.0).sum(axis=1) > 1)
    tested = list(table.telling[:MAX_TESTED_FAULTS])
    if not tested:
        return []
    names = [table.names[m] for m in tested]
    likelihoods = (table.counts, table.target, table.rows[tested])
    tests = []
    large = table.target.size > _MAX_EXACT_ENTRIES
    if "gate" in shares or (large and last):
        # Where the exact tail takes too long, the e-value stands for it: a tenth more tokens.
        alpha = shares.get("gate", 0.0) + (shares["ratios"] if large else 0.0)
        sums = stats.ratio_sums(*likelihoods, names=names)
        tests.append(stats.ratio_gate(sums, alpha=alpha, name="named faults, at any time").test)
    if last and not large:
        fixed = stats.ratio_test(
            *likelihoods, names=names, alpha=shares["ratios"], name="named faults"
        )
        tests.append(fixed.test)
    return tests


_MAX_EXACT_ENTRIES = 1 << 14
"""Most entries of the rows for which tails of likelihood ratios are exact."""


RARE_PROBABILITY = 0.01
"""Tokens below this probability are the tail that the score bank counts."""

_MAX_DUAL_CELLS = 2048
"""Most cells for which the dual certificate is worked out: it takes a millisecond for four."""


@dataclass(frozen=True, eq=False)
class SlotCounts:
    """Tokens of one position: ``counts`` int64, target and draft rows float64 (contexts, V).

    The draft row of a bonus slot is the draft's after the same prefix.
    """

    name: str
    counts: Ints
    target: Floats
    draft: Floats


@dataclass(frozen=True, eq=False)
class BatteryResult:
    """Tests of the tokens, and support ``violations`` in words, which cost no alpha.

    ``detectable``: mean one-token TV found with the run's power. ``by_slot``: log p-value of
    each slot's own test, 0 where it had too few tokens, -inf where support was violated.
    """

    tests: tuple[stats.TestResult, ...]
    violations: tuple[str, ...]
    detectable: float
    by_slot: tuple[float, ...]


def judge_tokens(
    slots: Sequence[SlotCounts],
    faults: FaultCounts | None,
    shares: dict[str, float],
    *,
    fraction: float = 1.0,
    last: bool = True,
    power: float = 0.9,
) -> BatteryResult:
    """Judge the tokens of all ``slots``, and the likelihood ratios of ``faults``.

    ``shares``: levels of "ratios", "scores", "transitions", "positions", "rare" and of every
    registered test, and "gate" in a run of several looks. This look spends ``fraction`` of them,
    but for "gate", which all looks share, and "ratios", which the ``last`` one spends.
    """
    levels = {name: share * fraction for name, share in shares.items()}
    tests = [] if faults is None else ratio_tests(faults, shares, last=last)
    tests += score_tests(slots, levels["scores"])
    each = {name: levels[name] / len(slots) for name in ("positions", "rare")}
    parts, by_slot, beside, violations = [], [], [], []
    for slot in slots:
        if not slot.counts.any():
            by_slot.append(0.0)
            continue
        support = stats.support_violations(slot.counts, slot.target).first
        if support is not None:
            context, token, count = support
            violations.append(
                f"support, {slot.name}: token {token} of probability 0 emitted {count} times in "
                f"context {context}"
            )
        g2 = stats.transition_g2(slot.counts, slot.target)
        parts.append(g2)
        slot_tests = []
        if g2.df > 0:
            name = f"transitions, {slot.name}"
            slot_tests.append(stats.g2_test(g2, alpha=each["positions"], name=name))
        if g2.rare is not None:
            name = f"rare tokens, {slot.name}"
            slot_tests.append(stats.rare_test(g2.rare, alpha=each["rare"], name=name))
        beside += slot_tests
        log_p = min((test.log_pvalue for test in slot_tests), default=0.0)
        by_slot.append(log_p if support is None else -math.inf)
    # One test of all positions holds the promised power; one of each tells where.
    pooled = reduce(add, parts)
    if pooled.df > 0:
        tests.append(stats.g2_test(pooled, alpha=levels["transitions"], name="transitions"))
    for test in _TOKEN_TESTS.values():
        beside += test.test(slots, levels[test.name])
    return BatteryResult(
        tests=(*tests, *beside),
        violations=tuple(violations),
        detectable=detectable_deviation(parts, slots, levels, power=power),
        by_slot=tuple(by_slot),
    )


def score_tests(slots: Sequence[SlotCounts], alpha: float) -> Iterator[stats.TestResult]:
    """Test every score over all slots, with half of ``alpha``, and in each slot."""
    bank = tuple(_score_bank(slots))
    share = stats.split_alpha(alpha, {"pooled": 1.0, "each": 1.0})
    pooled, each = share["pooled"] / len(bank), share["each"] / len(bank) / len(slots)
    for name, parts in bank:
        pairs = [(slot, sums) for slot, sums in zip(slots, parts, strict=True) if sums is not None]
        if not pairs:
            continue
        yield _score_test(reduce(add, (sums for _, sums in pairs)), pooled, f"score {name}")
        if len(pairs) > 1:
            for slot, sums in pairs:
                yield _score_test(sums, each, f"score {name}, {slot.name}")


_ScoreTotals = stats.ScoreSums | stats.IndicatorSums


def _score_bank(slots: Sequence[SlotCounts]) -> Iterator[tuple[str, list[_ScoreTotals | None]]]:
    """Each score's sums by slot, None where no token could have moved it."""
    scores: dict[str, Callable[[SlotCounts], Floats | npt.NDArray[np.bool_]]] = {
        "min(1, q/p)": lambda slot: stats.accept(slot.target, slot.draft),
        "(q-p)/(q+p)": lambda slot: stats.contrast(slot.target, slot.draft),
        "-log p": lambda slot: stats.surprise(slot.target),
        "q > p": lambda slot: stats.q_above_p(slot.target, slot.draft),
        f"p < {RARE_PROBABILITY:g}": lambda slot: stats.rare_token(
            slot.target, below=RARE_PROBABILITY
        ),
    }
    for name, score in scores.items():
        yield name, [_slot_sums(slot, score(slot)) for slot in slots]


def _slot_sums(slot: SlotCounts, scores: Floats | npt.NDArray[np.bool_]) -> _ScoreTotals | None:
    if not slot.counts.any():
        return None
    if scores.dtype == np.bool_:
        members = np.asarray(scores, np.bool_)
        bits = stats.indicator_sums_of_contexts(slot.counts, slot.target, members)
        return bits if bits.variance > 0.0 else None
    sums = stats.score_sums_of_contexts(slot.counts, slot.target, np.asarray(scores, np.float64))
    return sums if score_can_vary(sums) else None


def score_can_vary(sums: stats.ScoreSums) -> bool:
    """Whether any token could have moved the score."""
    # Equal scores differ by rounding alone, and certain tokens have a rounding's variance.
    return sums.ranges > 1e-9 * sums.n and sums.variance > 1e-6 * sums.width**2


def _score_test(sums: _ScoreTotals, alpha: float, name: str) -> stats.TestResult:
    if isinstance(sums, stats.IndicatorSums):
        return stats.indicator_test(sums, alpha=alpha, name=name)
    return stats.score_test(sums, alpha=alpha, name=name)


def detectable_deviation(
    parts: Sequence[stats.G2],
    slots: Sequence[SlotCounts],
    shares: dict[str, float],
    *,
    power: float,
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
    deviation = hidden / total.n
    if total.df > 0:
        alpha = shares["transitions"]
        deviation += stats.g2_min_detectable(total.df, total.n, alpha=alpha, power=power)
    return deviation if deviation < 1.0 else math.inf


def certify_slots(slots: Sequence[SlotCounts], *, delta: float) -> stats.Certificate:
    """Bound the mean one-token TV: the better of the plug-in and, on few cells, the dual bound."""
    counts = np.concatenate([slot.counts for slot in slots])
    rows = np.concatenate([slot.target for slot in slots])
    seen = counts.any(axis=1)
    counts, rows = counts[seen], rows[seen]
    if counts.size > _MAX_DUAL_CELLS:
        return stats.plug_in_certificate(counts, rows, delta=delta)
    bounds = (stats.plug_in_certificate, stats.dual_certificate)
    return stats.best_certificate(*(bound(counts, rows, delta=delta / 2.0) for bound in bounds))


# The part of a verifier that a rejection points at; "not localised" where it points at none.
#
# Without an error rate: whether there is a fault is what the tests say, at their level; where
# it is follows from what they found.


Part = Literal["accept", "residual", "bonus", "draft contract", "row plumbing", "random stream"]

PART_OF_FAULT: dict[str, Part] = {
    "inverted-ratio": "accept",
    "double-chance": "accept",
    "scaled-acceptance": "accept",
    "lenient": "accept",
    "typical-acceptance": "accept",
    "draft-leak": "accept",
    "relaxed-acceptance": "accept",
    "entropy-scaled": "accept",
    "forced-top": "accept",
    "one-hot-residual": "residual",
    "softmax-residual": "residual",
    "target-residual": "residual",
    "unnormalised-residual": "residual",
    "floored-residual": "residual",
    "top-k-residual": "residual",
    "naive-block-stealth": "residual",
    "wrong-bonus-row": "bonus",
    "argmax-draft-soft-q": "draft contract",
    "truncated-draft-soft-q": "draft contract",
    "rounded-q": "draft contract",
    "draft-temperature": "draft contract",
    "residual-row-zero": "row plumbing",
    "previous-row": "row plumbing",
    "target-temperature": "row plumbing",
    "reused-uniform": "random stream",
    "one-uniform": "random stream",
}
"""Where each fault with a law sits, by its name without parameter."""

_CLEAN_LOG_PVALUE, _SURE_LOG_PVALUE = -7.0, -14.0
"""Log p-values: above the first a slot is clean, below the second it deviates."""


@dataclass(frozen=True)
class LocalisationEvidence:
    """What there is to read.

    ``independence``, ``tokens``: whether tests of that kind rejected. ``by_slot``: log p-value
    of each slot's tokens. ``bonus``: its index in them, None where positions are not slots.
    ``accepted_too_much``: an accepted token has more mass than the target gives it, in some
    slot; ``accepts_as_token``: tokens are accepted as the token rule does. Both None where
    accepted tokens are not seen apart. ``lossy``: more is accepted than any lossless rule may.
    """

    independence: bool
    tokens: bool
    lossy: bool
    by_slot: tuple[float, ...]
    bonus: int | None
    named: FaultDiagnosis | None
    accepted_too_much: bool | None = None
    accepts_as_token: bool | None = None


@dataclass(frozen=True)
class FaultLocation:
    """The ``part`` that failed, None if not localised, and ``why``.

    ``position``: the first that deviates, from 0; None where no single one shows it. ``lines``: the
    lines of code that run in that part alone, as ``file:line``, where they were looked for.
    """

    part: Part | None
    position: int | None
    why: str
    lines: tuple[str, ...] = ()


def locate_fault(found: LocalisationEvidence) -> FaultLocation:
    """Return where the evidence points, the most specific reason first."""
    off = [i for i, log_p in enumerate(found.by_slot) if log_p < _SURE_LOG_PVALUE]
    position = off[0] if off else None
    if found.independence and not found.tokens:
        why = "each call's tokens follow the target, but calls or rows depend on each other"
        return FaultLocation("random stream", None, why)
    others_clean = all(
        p > _CLEAN_LOG_PVALUE for i, p in enumerate(found.by_slot) if i != found.bonus
    )
    if found.bonus is not None and off == [found.bonus] and others_clean:
        return FaultLocation("bonus", position, "the bonus slot alone deviates")
    named = found.named
    if named is not None and named.best is not None and named.fits:
        fault = named.best.fault
        why = f"{fault} explains {named.explains:.0%} of the deviation"
        return FaultLocation(PART_OF_FAULT[fault.partition("(")[0]], position, why)
    if found.accepted_too_much:
        why = "accepted tokens have more mass than the target gives them"
        return FaultLocation("accept", position, why)
    if found.accepts_as_token and off and off[0] != found.bonus:
        why = "tokens are accepted as they should be, but rejections give others in their place"
        return FaultLocation("residual", position, why)
    if found.lossy:
        why = "more is accepted than any lossless rule may accept"
        return FaultLocation("accept", position, why)
    return FaultLocation(None, position, "no part of the verifier alone explains what was found")


# The report of the tests of one question, their power, and their document.


@dataclass(frozen=True)
class TestReport:
    """Tests of one kernel, their findings in words, and their power.

    ``detectable``: smallest deviation, of the kind named in ``deviation``, that is found with
    power .9; the verdict rests on it. ``beside``: further kinds of deviations and their sizes
    found with that power, for which no verdict waits. ``named``: what the tokens say of the
    catalogued faults, None where contexts tell none of them apart. ``located``: the part that
    failed, None if nothing did.
    """

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    deviation: str
    beside: tuple[tuple[str, float], ...] = ()
    named: FaultDiagnosis | None = None
    located: FaultLocation | None = None

    def verdict(self, detect: float) -> Verdict:
        """FAIL on a finding, PASS only if a deviation of ``detect`` would have been found."""
        if self.findings:
            return "FAIL"
        return "PASS" if self.detectable <= detect else "INCONCLUSIVE"


def rejection_findings(tests: Iterable[stats.TestResult]) -> list[str]:
    """Return a finding for each kind of rejected test: the smallest p-value, and how many more.

    A kind is what a name begins with: all scores are one, and the transitions of all positions.
    """
    kinds: dict[str, list[stats.TestResult]] = {}
    for test in tests:
        if test.rejected:
            kinds.setdefault(test.name.split()[0].rstrip(","), []).append(test)
    findings = []
    for kind in kinds.values():
        worst = min(kind, key=lambda test: test.log_pvalue)
        more = f", and {len(kind) - 1} more of its kind" if kind[1:] else ""
        findings.append(f"{worst.name}: p = {pvalue_words(worst.log_pvalue)}{more}")
    return findings


def pvalue_words(log_pvalue: float) -> str:
    """Return a p-value given by its logarithm, to a power of ten."""
    return "0" if log_pvalue == -np.inf else f"1e{log_pvalue / np.log(10):.0f}"


StructT = TypeVar("StructT", bound=results.Struct)


def _document(struct: type[StructT], source: object) -> StructT:
    """Return the document's entry of what has its fields; infinite numbers become null."""
    values = {name: getattr(source, name) for name in struct.__struct_fields__}
    finite = {n: finite_or_none(v) if isinstance(v, float) else v for n, v in values.items()}
    return struct(**finite)


def test_document(test: stats.TestResult) -> results.Test:
    """Return the document's entry of ``test``."""
    return _document(results.Test, test)


def certificate_document(certificate: stats.Certificate) -> results.Certificate:
    """Return the document's entry of ``certificate``."""
    return _document(results.Certificate, certificate)


def faults_document(named: FaultDiagnosis | None) -> results.NamedFaults | None:
    """Return the document's entry of what the tokens say of the catalogue."""
    if named is None:
        return None
    best = named.best
    return results.NamedFaults(
        refuted=tuple(_document(results.FaultAtStrength, fault) for fault in named.refuted),
        not_refuted=named.not_refuted,
        beta=REFUTATION_BETA,
        best=None if best is None else _document(results.FaultAtStrength, best),
        explains=None if best is None else named.explains,
    )


def suspect_document(located: FaultLocation | None) -> results.Suspect | None:
    """Return the document's entry of where a fault sits."""
    return None if located is None else _document(results.Suspect, located)


def finite_or_none(value: float) -> float | None:
    """Return ``value``, or None where there is no finite number."""
    return value if math.isfinite(value) else None


def start_meta() -> Callable[[], results.Meta]:
    """Note when a run starts; what is returned gives the ``meta`` of its document at its end."""
    started, clock = datetime.now(UTC), time.perf_counter()
    return lambda: results.Meta(
        version=version("simverify"),
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        machine=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        threads=1,
        timings=(),
    )


# The split of one trial's share of the false-alarm rate over its tests.
#
# A comparison gives each pair of a model and a verifier the same share of ``alpha``, an audit
# each instance. Half goes to the likelihood ratios of named faults, a quarter to the score bank,
# a quarter to the rest. What a run does not need (rare tokens where there are none, calls that
# nobody asked for) is not spent.


@dataclass(frozen=True)
class TokenTest:
    """A test of tokens that are counted by context.

    ``name``: of its share, which is ``weight`` beside 6 of the other tests of these tokens.
    ``test``: yields what it makes of the counts of all positions at the level that it is given,
    and of one look's part of it where there are several. A rejection is a finding.
    """

    name: str
    weight: float
    test: Callable[[Sequence[SlotCounts], float], Iterable[stats.TestResult]]


_TOKEN_TESTS: dict[str, TokenTest] = {}

_OUTPUT_WEIGHTS = {"transitions": 4.0, "positions": 1.0, "rare": 1.0}
"""``transitions`` tests all positions at once and holds the promised power; ``positions``, one
of each, tells where; ``rare`` judges rows that nearly always draw the same token. The last two
are shared by the positions."""

_OTHER_SHARES = frozenset(("ratios", "scores", "gate", "pairs", "output", "lossy", "acceptance"))


def register_test(test: TokenTest) -> None:
    """Add a test to the battery of every audit and comparison that counts tokens by context.

    Raises ``ValueError`` for a weight that is not above 0, or the name of another share.
    """
    taken = _OTHER_SHARES | {*_TOKEN_TESTS, *callable_shares(0.5)}
    if test.name in taken or not 0.0 < test.weight < math.inf:
        raise ValueError(f"{test.name}: expected a new name, and a weight above 0")
    _TOKEN_TESTS[test.name] = test


def _output_weights() -> dict[str, float]:
    return _OUTPUT_WEIGHTS | {test.name: test.weight for test in _TOKEN_TESTS.values()}


def kernel_shares(alpha: float, *, calls: bool) -> dict[str, float]:
    """Split a kernel's share.

    ``ratios`` and ``scores`` are the battery's; ``output`` the rest of what is asked of its
    tokens; ``lossy`` its acceptance against the optimum. These decide on losslessness;
    ``acceptance`` and ``calls``, the latter if asked for, on whether it is the declared rule.
    """
    rest = {"output": 6.0, "lossy": 1.0, "acceptance": 1.0}
    return _battery_shares(alpha, rest | ({"calls": 1.0} if calls else {}))


def context_shares(alpha: float) -> dict[str, float]:
    """Split the tokens' share ``output`` where contexts repeat.

    ``pairs`` is for what tokens know of each other beyond the contexts they are counted by.
    """
    return stats.split_alpha(alpha, _output_weights() | {"pairs": 0.5})


def pit_shares(alpha: float, *, cells: bool) -> dict[str, float]:
    """Split the tokens' share where contexts are too many.

    ``pits``, shared by the orders and positions, hold the promised power. Of the first tokens
    there is a third order, ``descending``, and ``pairs``. A Markov model has transitions
    between ``cells`` of tokens beside them, coarse and fine.
    """
    weights = {"coarse": 1.0, "fine": 1.0} if cells else {}
    return stats.split_alpha(alpha, {"pits": 4.0, "descending": 0.5, "pairs": 0.5} | weights)


def output_shares(alpha: float) -> dict[str, float]:
    """Split a real model's share: ``pits`` in three orders hold the promised power.

    ``acceptance`` decides on whether it is the declared rule, the others on losslessness.
    """
    return _battery_shares(alpha, {"pits": 4.0, "pairs": 1.0, "acceptance": 1.0})


def callable_shares(alpha: float) -> dict[str, float]:
    """Split an instance's share in an audit, over all of its looks.

    ``gate`` is the e-process of the named faults, asked at every look; ``ratios`` their test
    of fixed size at the last. ``joint`` are the laws of the first tokens together;
    ``acceptance`` is the rate against the optimum; ``optimality`` never decides.
    """
    rest = {"joint": 2.0, "independence": 3.0, "acceptance": 1.0, "optimality": 1.0}
    return _battery_shares(alpha, _output_weights() | rest, gate=BATTERY["likelihood ratios"] / 2)


def _battery_shares(
    alpha: float, rest: Mapping[str, float], *, gate: float = 0.0
) -> dict[str, float]:
    """Split ``alpha`` over the battery's parts, and its rest by the weights of ``rest``."""
    total = sum(rest.values())
    weights = {name: BATTERY["rest"] * weight / total for name, weight in rest.items()}
    weights |= {"gate": gate} if gate else {}
    ratios = BATTERY["likelihood ratios"] - gate
    return stats.split_alpha(alpha, weights | {"ratios": ratios, "scores": BATTERY["scores"]})


# The output tier: emitted tokens of a real model, each against its own target row.
#
# Contexts never repeat, so nothing is counted by context. All tokens are judged together, by
# randomised PITs in three orders, scores and the likelihood ratios of named faults; N is fixed
# beforehand. Scores and pairs of tokens are tested wherever tokens stream by with whole rows.


_SCORE_NAMES = {"accept": "min(1, q/p)", "contrast": "(q-p)/(q+p)", "surprise": "-log p"}


def feature_scores(found: "Features", alpha: float) -> Iterator[stats.TestResult]:
    """Test every score over all slots."""
    from simverify.simulators.kernels.row_sums import RARE  # numba, which most audits do without

    marks = {"q > p": found.q_above_p}
    marks |= {f"p < {level:g}": sums for level, sums in zip(RARE, found.rare, strict=True)}
    each = alpha / (len(_SCORE_NAMES) + len(marks))
    for field, name in _SCORE_NAMES.items():
        sums = getattr(found, field)
        if score_can_vary(sums):
            yield stats.score_test(sums, alpha=each, name=f"score {name}")
    for name, bits in marks.items():
        if bits.variance > 0.0:
            yield stats.indicator_test(bits, alpha=each, name=f"score {name}")


def feature_pairs(found: "Features", alpha: float) -> Iterator[stats.TestResult]:
    """Test tokens that follow each other, within a trial and from one trial to the next."""
    if found.pairs.n >= MIN_PAIRS:
        yield stats.pit_correlation(found.pairs, alpha=alpha / 2.0, name="pairs, correlation")
    if found.pair_table.sum() >= MIN_TABLE:
        table = stats.pit_table_g2(found.pair_table)
        test = stats.g2_test(table, alpha=alpha / 2.0, name="pairs, 8 x 8 cells")
        yield replace(test, deviation="TV of pairs of PITs")


OUTPUT_DEVIATION = (
    "mean one-token TV, monotone in q/p, in token order or in descending P, in the same "
    "direction in every context"
)

_ORDER_NAMES = ("q/p", "token", "descending P")


def judge_output(found: "Features", alpha: float) -> TestReport:
    """Judge the features of ``found.n`` emitted tokens at level ``alpha``."""
    shares = output_shares(alpha)
    findings = []
    if found.unsupported:
        findings.append(f"support: {found.unsupported} tokens of probability 0 emitted")
    gate = stats.ratio_gate(
        found.ratios, alpha=shares["ratios"], beta=REFUTATION_BETA, name="named faults"
    )
    pits = [
        stats.pit_ks(bins, alpha=_pit_alpha(alpha), name=f"PIT in {order} order")
        for order, bins in zip(_ORDER_NAMES, found.pits, strict=True)
    ]
    alone = [gate.test, *pits, *feature_scores(found, shares["scores"])]
    pairs = list(feature_pairs(found, shares["pairs"]))
    tests = [*alone, *pairs]
    findings += rejection_findings(tests)
    if findings and gate.best.log_evalue > 0.0:
        findings.append(
            f"of the named faults {gate.best.fault} at strength {gate.best.strength:g} fits best"
        )
    named = FaultDiagnosis(gate.refuted, gate.not_refuted, None, 0.0)
    apart, together = (any(test.rejected for test in some) for some in (alone, pairs))
    evidence = LocalisationEvidence(together, apart, False, (), None, named)
    return TestReport(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=output_detectable(found.n, alpha),
        deviation=OUTPUT_DEVIATION,
        named=named,
        located=locate_fault(evidence) if findings else None,
    )


def output_detectable(n: int, alpha: float) -> float:
    """Return the deviation that ``n`` tokens find with power .9."""
    return min(stats.ks_min_detectable(n, alpha=_pit_alpha(alpha), bins=stats.PIT_BINS), 1.0)


def output_tokens(detect: float, alpha: float) -> int:
    """Return how many tokens find a deviation of ``detect`` with power .9."""
    return stats.ks_samples(detect, alpha=_pit_alpha(alpha), bins=stats.PIT_BINS)


def certify_output(found: "Features", delta: float) -> stats.Certificate:
    """Bound the mean one-token TV by the PITs in q/p order, with its assumption."""
    return stats.monotone_certificate(found.pits[0], delta=delta)


def _pit_alpha(alpha: float) -> float:
    return output_shares(alpha)["pits"] / len(_ORDER_NAMES)

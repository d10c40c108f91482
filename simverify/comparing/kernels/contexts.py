"""A kernel's tokens where contexts repeat: counted by position and last token, for the battery.

Such counts see a wrong row, not that a token depends on the one before the last as well, as
after a stream that repeats or a buffer that is a call behind. Under the null the randomised PITs
of all tokens in their order are independent, whatever their rows; so they are paired at short
lags, within a trial and from one trial to the next.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.battery.battery import Slot, certify, detectable, judge_tokens
from simverify.battery.fault_rows import (
    FaultCounts,
    fault_counts,
    judged_rows,
    known_faults,
    slot_rows,
)
from simverify.battery.judgement import Judgement, rejections
from simverify.battery.localise import Evidence, locate
from simverify.battery.naming import name_faults
from simverify.battery.shares import context_shares
from simverify.comparing.kernels.kernel import Trial
from simverify.faults.base import Fault
from simverify.models.base import MarkovModel
from simverify.results import ANY_DEVIATION
from simverify.simulators.run import Counts
from simverify.simulators.streamed import Sample
from simverify.simulators.tables import stacked
from simverify.stats.counts.independence import MIN_TABLE
from simverify.stats.pits.correlation import MIN_PAIRS

PAIRED = 1 << 16
"""Most tokens whose PITs are paired; fixed beforehand, whatever the run's size."""

LAGS = (1, 2)
"""Places between the tokens of a pair: the row follows the token before, and nothing the second."""


def order_two_tests(trial: Trial, trials: int, alpha: float) -> Iterator[stats.TestResult]:
    """Run the first of ``trials`` trials again, keep their tokens and test their pairs.

    Where every row has one possible token alone, there is nothing that it could know.
    """
    if not ((trial.rows > 0.0).sum(axis=1) > 1).any():
        return
    found = trial.sample(trials, PAIRED)
    yield from lag_tests(pits_of(found, trial.rows, trial.draft_rows), alpha)


def pits_of(found: Sample, target: Floats, draft: Floats) -> Floats:
    """PITs (n,) in q/p order of tokens whose states are rows of ``target`` and ``draft``."""
    order = np.argsort(stats.order_key("ratio", target, draft), axis=1, kind="stable")
    ranked = np.take_along_axis(target, order, axis=1)
    below = np.empty_like(target)
    np.put_along_axis(below, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    cell = found.states, found.tokens
    pits: Floats = np.clip(below[cell] + found.uniforms * target[cell], 0.0, 1.0)
    return pits


def lag_tests(pits: Floats, alpha: float) -> Iterator[stats.TestResult]:
    """Test PITs in the order of their tokens for what they know of each other at each lag.

    All pairs at a lag for a correlation; disjoint ones for a table, which sees any dependence.
    """
    each = alpha / (2 * len(LAGS))
    for lag in LAGS:
        words = "in a row" if lag == 1 else f"{lag} apart"
        if len(pits) - lag >= MIN_PAIRS:
            sums = stats.pair_sums(pits[:-lag], pits[lag:])
            yield stats.pit_correlation(sums, alpha=each, name=f"tokens {words}, correlation")
        first = stats.disjoint_pairs(len(pits), lag, 0)
        if len(first) >= MIN_TABLE:
            table = stats.pit_table_g2(stats.pit_table(pits[first], pits[first + lag]))
            test = stats.g2_test(table, alpha=each, name=f"tokens {words}, 8 x 8 cells")
            yield replace(test, deviation="TV of pairs of PITs")


def judge_contexts(
    trial: Trial, counts: Counts, shares: dict[str, float], first_calls: Counts | None = None
) -> Judgement:
    """Test the tokens of every position against the rows of their contexts.

    ``shares`` as :func:`~simverify.battery.shares.kernel_shares` gives them. ``first_calls`` of a
    rule with state, counted by slot, say which faults it is not; the other rules' counts are
    of such calls themselves.
    """
    slots = _slots(trial, counts)
    called = counts if trial.one_draft else first_calls
    faults = _by_slot(trial, called) if called is not None else None
    tested = faults if trial.one_draft else _by_position(trial, counts)
    ours = context_shares(shares["output"])
    found = judge_tokens(slots, tested, shares | ours)
    pairs = tuple(order_two_tests(trial, counts.trials, ours["pairs"]))
    tests = (*found.tests, *pairs)
    rejected = rejections(tests)
    failed = bool(rejected or found.violations)
    named = None if faults is None else name_faults([faults], diagnose=failed and trial.by_slot)
    place = None
    if failed:
        place = locate(
            Evidence(
                independence=any(test.rejected for test in pairs),
                tokens=bool(found.violations) or any(test.rejected for test in found.tests),
                lossy=False, by_slot=found.by_slot,
                bonus=trial.gamma if trial.by_slot else None, named=named,
            )
        )  # fmt: skip
    return Judgement(
        tests=tests,
        findings=(*found.violations, *rejected),
        detectable=found.detectable,
        deviation=ANY_DEVIATION,
        named=named,
        located=place,
    )


def predict_contexts(trial: Trial, pilot: Counts, trials: int, shares: dict[str, float]) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the contexts a pilot met."""
    totals = np.rint(pilot.transitions.sum(axis=2) * (trials / pilot.trials)).astype(np.int64)
    parts = [stats.expected_g2(slot, trial.rows) for slot in totals if slot.any()]
    if not parts:
        return math.inf
    ours = context_shares(shares["output"])
    return detectable(parts, _slots(trial, pilot), ours, power=0.9)


def certify_contexts(trial: Trial, counts: Counts, delta: float) -> stats.Certificate:
    """Bound the mean one-token TV of the kernel's tokens."""
    return certify(_slots(trial, counts), delta=delta)


def _slots(trial: Trial, counts: Counts) -> Sequence[Slot]:
    return [
        Slot(trial.position(index), table, trial.rows, trial.draft_rows)
        for index, table in enumerate(counts.transitions)
    ]


def _by_slot(trial: Trial, counts: Counts) -> FaultCounts:
    """Counts of single calls from the empty prefix, and the faults' rows in every slot.

    A context is the last token: the slot's own rows follow from it, and the first slot's are
    those of the empty prefix. Judged slots after the first share their contexts.
    """
    assert isinstance(trial.model, MarkovModel)
    first, later, bonus = _rows_by_slot(trial.model)
    p, gamma, tables = trial.rows, trial.gamma, counts.transitions
    parts = [(tables[0][-1:], p[-1:], first)]
    if gamma > 1:
        parts.append((tables[1:gamma].sum(axis=0), p, later))
    return fault_counts(_known(), [*parts, (tables[gamma], p, bonus)])


def _known() -> tuple[Fault, ...]:
    return known_faults(prefix=False, first_row=True)


@lru_cache(maxsize=1)
def _rows_by_slot(model: MarkovModel) -> tuple[Floats, Floats, Floats]:
    """Rows of the known faults in the first slot of a call, in a later judged one, in the bonus.

    All rules of a comparison share them.
    """
    faults = _known()
    p = stacked(model.target_rows, model.target_start)
    q = stacked(model.draft_rows, model.draft_start)
    start = p[-1:], q[-1:]
    target, draft = _after(start[0], p), _after(start[1], q)
    prefixes = [(0,)] * len(p)
    return (
        judged_rows(faults, *start),
        slot_rows(faults, target, draft, prefixes),
        slot_rows(faults, target, draft[:, :1], prefixes),
    )


def _by_position(trial: Trial, counts: Counts) -> FaultCounts:
    """Counts of generations, tried against what faults emit in a judged slot.

    Of a rule with state no position is a slot of any call, and on draft trees a slot judges
    several drafts: these are directions in which the tokens may leave the target, not laws
    that they would follow.
    """
    faults = known_faults(prefix=False, first_row=False)
    rows = judged_rows(faults, trial.rows, trial.draft_rows)
    return fault_counts(faults, [(counts.transitions.sum(axis=0), trial.rows, rows)])


def _after(first: Floats, rows: Floats) -> Floats:
    """Rows (contexts, 2, V) of a call's first slot and of a later one."""
    return np.stack([np.broadcast_to(first, rows.shape), rows], axis=1)

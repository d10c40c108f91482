"""Runs the compiled loops for single drafts: ranges of trials, on threads, into mergeable counts.

Its inputs are here as well (a model's tables), and what a run keeps: counts, features of tokens,
Rao-Blackwell estimates and the first tokens with their rows.
"""

import os
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.errors import UsageError
from simverify.models.base import MarkovModel, Model
from simverify.models.ngram import DRAFT_LENGTH, VOCAB_SIZE, NgramModel, NgramOrder, find_sorted
from simverify.simulators.kernels import features as feature_kernels
from simverify.simulators.kernels.chains import generate
from simverify.simulators.kernels.markov import INDEX_STEP, MarkovTables, build_alias
from simverify.simulators.kernels.ngram import (
    CUT_BITS,
    NODE3_BITS,
    NODE4_BITS,
    NODE_WORDS,
    ROW_BITS,
    NgramTables,
    fill_rows,
)
from simverify.simulators.kernels.philox import PIT, fill_tile
from simverify.simulators.kernels.rao_blackwell import PAIR, RULES, accumulate, follow_modes
from simverify.stats.counts import PIT_CELLS
from simverify.stats.pits import Order
from simverify.stats.scores import SURPRISE_CAP
from simverify.verifiers import get_verifier
from simverify.verifiers.base import resolve_part

# Features of emitted tokens: sums for every test, constant in number, that add up.
#
# Contexts need not repeat: each token comes with its own target and draft row, at any vocabulary.
# Of a batch of rows only its :class:`Features` are kept; those of disjoint batches add up.


ORDERS: tuple[Order, ...] = ("ratio", "index", "descending")
"""Orders of the vocabulary, first axis of ``Features.pits``."""

_CHUNK_ENTRIES = 1 << 20
"""Entries of rows that a thread takes at a time, however many threads there are."""

_SUM_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Sums over ``n`` emitted tokens, one field per test of the battery; those of batches add up.

    ``unsupported``: tokens of probability 0 under their target row. ``pits``: int64 (3, 65536),
    histograms of the randomised PITs in the orders of ``ORDERS``, ties by token id; one uniform
    randomises all three. ``q_above_p``: of 1{q > p}. ``rare``: of 1{P(x) < 1e-3} and
    1{P(x) < 1e-5}. ``accept``, ``contrast``, ``surprise``: of the scores of that name
    (:mod:`simverify.stats.scores`). ``ratios``: of the faults whose law needs only the slot's own
    rows; ``growth`` is NaN where tokens were streamed. ``pairs``: of the PITs in q/p order of
    tokens that follow each other; ``pair_table``: int64 (8, 8), those that share no token, by cell.
    """

    n: int
    unsupported: int
    pits: Ints
    q_above_p: stats.IndicatorSums
    rare: tuple[stats.IndicatorSums, ...]
    accept: stats.ScoreSums
    contrast: stats.ScoreSums
    surprise: stats.ScoreSums
    ratios: stats.RatioSums
    pairs: stats.PairSums
    pair_table: Ints

    def __add__(self, other: "Features") -> "Features":
        sums = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if field.name != "rare"
        }
        rare = tuple(a + b for a, b in zip(self.rare, other.rare, strict=True))
        return Features(rare=rare, **sums)


def features(
    p: Any,
    q: Any,
    tokens: Any,
    uniforms: Any,
    *,
    judged: Any = None,
    follows: Any = None,
    threads: int = 1,
) -> Features:
    """Sum up the features of a batch of emitted tokens.

    ``p``, ``q``: float32 or float64 (n, V), the rows of each token's slot; every row sums to 1
    within 1e-9, or 1e-4 in float32. For a slot without a draft row pass any row fixed beforehand,
    such as the previous slot's or ``p`` itself. ``tokens``: int (n,), n fixed beforehand.
    ``uniforms``: float64 (n,) in [0, 1), independent of all else; they randomise the PITs.

    ``judged``: bool (n,), False where ``q`` judged no draft, as at a bonus token: there only the
    fault of the target's temperature does harm. Default: all True. ``follows``: bool (n,), True
    where the token makes a pair with the one before it. The PIT of that one must not decide
    whether it does: all tokens in their order are a fair sample, and pairs within calls alone are
    not, as the first of them was kept. Default: all False. ``threads`` change no result.

    Each row is read twice and not copied; memory beside the rows is 400 bytes a token. Sums are
    float64 whatever the rows. float32 entries are rounded by up to 2^-25 of themselves: the PIT,
    scores and ratios are then those of a law within TV 3e-8 of the unrounded one, and exact for
    the rows as given, each divided by its float64 sum. Powers of float32 entries, in the laws of a
    wrong temperature, are good to 5e-6 of themselves.

    Raises ``ValueError`` for other shapes or dtypes, no token, V < 2, a row that is no law, a
    token outside 0..V-1 or a uniform outside [0, 1).
    """
    p, q, ids, v = _check_batch(p, q, tokens, uniforms)
    slots = _check_flags("judged", judged, ids, default=True)
    after = _check_flags("follows", follows, ids, default=False)
    if threads < 1:
        raise ValueError(f"threads is {threads}, expected a whole number, 1 or more")
    after[0] = False
    records = np.empty((ids.size, feature_kernels.RECORD))
    ratios = np.empty((ids.size, len(feature_kernels.FAULTS)))

    def work(begin: int, end: int) -> Floats:
        part = slice(begin, end)
        feature_kernels.fill(
            p[part], q[part], ids[part], v[part], slots[part], records[part], ratios[part]
        )
        wealth = np.zeros((3, len(feature_kernels.FAULTS), len(stats.STRENGTHS)))
        feature_kernels.bet(ratios[part], np.array(stats.STRENGTHS), wealth)
        return wealth

    # Even ranges in order, so that the sum is always the same one.
    count = -(-ids.size // max(1, _CHUNK_ENTRIES // p.shape[1]))
    bounds = [ids.size * k // count for k in range(count + 1)]
    with ThreadPoolExecutor(threads) as pool:
        wealth = sum(list(pool.map(work, bounds[:-1], bounds[1:])))
    _check_rows(records, p.dtype)
    columns = records.T
    bins = np.minimum(columns[: len(ORDERS)] * stats.PIT_BINS, stats.PIT_BINS - 1).astype(np.int64)
    above, *rare = (
        stats.indicator_sums(columns[place].astype(np.int64), columns[place + 1])
        for place in (
            feature_kernels.IS_ABOVE,
            feature_kernels.IS_RARE_0,
            feature_kernels.IS_RARE_1,
        )
    )
    pairs, pair_table = _pair_sums(columns[feature_kernels.PIT_RATIO], after)
    return Features(
        n=ids.size,
        unsupported=int((columns[feature_kernels.PROBABILITY] == 0.0).sum()),
        pits=np.stack([np.bincount(row, minlength=stats.PIT_BINS) for row in bins]),
        q_above_p=above,
        rare=tuple(rare),
        accept=_score_sums(columns, feature_kernels.ACCEPT, 1.0),
        contrast=_score_sums(columns, feature_kernels.CONTRAST, 2.0),
        surprise=_score_sums(columns, feature_kernels.SURPRISE, SURPRISE_CAP),
        ratios=_ratio_sums(wealth, ids.size),
        pairs=pairs,
        pair_table=pair_table,
    )


def _score_sums(columns: Floats, place: int, width: float) -> stats.ScoreSums:
    names = ("mean", "variance", "third", "fourth", "low", "high")
    moments = dict(zip(names, columns[place + 1 : place + 7], strict=True))
    return stats.score_sums(columns[place], **moments, width=width)


def _ratio_sums(wealth: Any, n: int) -> stats.RatioSums:
    """One factor of 0 outweighs any of infinity, and the inverse has them the other way round."""
    total, zeros, infinities = wealth
    forward = np.where(infinities > 0, np.inf, total)
    backward = np.where(zeros > 0, np.inf, -total)
    return stats.RatioSums(
        names=feature_kernels.FAULTS,
        n=n,
        log_evalues=np.where(zeros > 0, -np.inf, forward),
        log_refutations=np.where(infinities > 0, -np.inf, backward),
        growth=np.full(total.shape, np.nan),
        ball=0.0,
    )


def _pair_sums(pits: Floats, after: npt.NDArray[np.bool_]) -> tuple[stats.PairSums, Ints]:
    second = np.flatnonzero(after)
    if second.size == 0:
        none = stats.PairSums(n=0, products=0.0, spreads=0.0)
        return none, np.zeros((PIT_CELLS, PIT_CELLS), np.int64)
    sums = stats.pair_sums(pits[second - 1], pits[second])
    # The table is of disjoint pairs: tokens 0 and 1, 2 and 3, ... of each sequence.
    index = np.arange(after.size)
    start = np.maximum.accumulate(np.where(after, 0, index))
    second = np.flatnonzero((index - start) % 2 == 1)
    return sums, stats.pit_table(pits[second - 1], pits[second])


def _check_batch(p: Any, q: Any, tokens: Any, uniforms: Any) -> tuple[Any, Any, Ints, Floats]:
    p, q = np.ascontiguousarray(p), np.ascontiguousarray(q)
    if p.shape != q.shape or p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"p, q have shapes {p.shape}, {q.shape}, expected the same (n, V), V >= 2")
    if p.dtype != q.dtype or p.dtype not in _SUM_TOLERANCE:
        raise ValueError(
            f"p, q are {p.dtype}, {q.dtype}, expected float32 or float64, both "
            "the same: convert one"
        )
    n, vocab_size = p.shape
    ids, v = np.asarray(tokens), np.asarray(uniforms, dtype=np.float64)
    if ids.shape != (n,) or ids.dtype.kind not in "iu" or n == 0:
        raise ValueError(f"tokens is {ids.dtype} {ids.shape}, expected integers ({n},), n >= 1")
    if ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(f"tokens span {ids.min()}..{ids.max()}, expected 0..{vocab_size - 1}")
    if v.shape != (n,) or not ((v >= 0.0) & (v < 1.0)).all():
        raise ValueError(
            f"uniforms has shape {v.shape} or a number outside [0, 1), expected ({n},) in [0, 1)"
        )
    return p, q, ids.astype(np.int64, copy=False), v


def _check_flags(name: str, flags: Any, ids: Ints, *, default: bool) -> npt.NDArray[np.bool_]:
    array = np.full(ids.shape, default) if flags is None else np.array(flags)
    if array.shape != ids.shape or array.dtype != np.bool_:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, expected bool {ids.shape}")
    return array


def _check_rows(records: Floats, dtype: Any) -> None:
    """Raise unless all rows are laws, by what the kernel found in them."""
    tolerance = _SUM_TOLERANCE[dtype]
    improper = records[:, feature_kernels.IMPROPER] > 0.0
    if improper.any():
        raise ValueError(
            f"p or q row {improper.argmax()} has a negative or NaN entry, expected neither"
        )
    for name, place in (("p", feature_kernels.MASS_P), ("q", feature_kernels.MASS_Q)):
        off = ~(np.abs(records[:, place] - 1.0) <= tolerance)
        if off.any():
            bad = int(off.argmax())
            raise ValueError(
                f"{name} row {bad} sums to {records[bad, place]:.12g} ({dtype}), expected 1 "
                f"within {tolerance:g}: normalise in float64"
            )


# Ranges of trials on threads, and the counts that they add up to.


TRIALS_PER_SHARD = 1 << 14  # trials a thread takes at a time; a multiple of the kernels' tile

TRIALS_PER_SMALL_SHARD = 1 << 10
"""The same of several calls each, which take long: one thread would wait for the other's last."""

PIT_BINS = 1 << 12


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of ``trials`` generations; counts of shards add up.

    ``accepted``: int64 (gamma+1,), tau of the first call. ``lengths``: int64 (2, calls), sum
    and sum of squares of the tokens out after each call. ``transitions``: int64 (positions,
    S+1, cells) emitted tokens by position, row and cell of tokens. ``pits``: int64 (2,
    positions, bins), randomised PITs in q/p and in token order, and ``unsupported`` the
    tokens of probability 0 among them. Arrays are empty where nothing was to be counted.
    """

    trials: int
    accepted: Ints
    lengths: Ints
    transitions: Ints
    pits: Ints
    unsupported: int

    def __add__(self, other: "Counts") -> "Counts":
        names = [field.name for field in fields(self)]
        return Counts(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def tail_counts(self) -> Ints:
        """Number of first calls with tau >= l, l = 1..gamma."""
        tails: Ints = np.cumsum(self.accepted[::-1])[::-1][1:]
        return tails


@dataclass(frozen=True, eq=False)
class Loop:
    """A compiled loop over trials of ``calls`` calls that accept ``gamma`` tokens at most.

    ``start()`` returns for one thread ``run(begin, end, cells, accepted, lengths, transitions,
    pits, unsupported, trail)``, whose arguments are those of ``kernels.chains.generate``.
    """

    start: Callable[[], Callable[..., None]]
    gamma: int
    seed: int
    calls: int = 1

    def count(
        self,
        trials: int,
        threads: int,
        *,
        transition_shape: tuple[int, int, int] = (0, 1, 1),
        cells: Ints | None = None,
        pit_positions: int = 0,
        first_trial: int = 0,
    ) -> Counts:
        """Run ``trials`` trials, numbered from ``first_trial``, and count their tokens.

        ``transition_shape`` (positions, rows, cells) or ``pit_positions`` ask for the tokens at
        the first positions; with several calls a generation then ends when they are full.
        ``cells`` int64 (V,) is the cell that counts each token, by default its own. Neither
        ``threads`` nor their timing changes the result.
        """
        places = np.arange(transition_shape[2]) if cells is None else cells

        def empty() -> Counts:
            return self._empty(transition_shape, pit_positions)

        def work(take: Callable[[], tuple[int, int] | None]) -> Counts:
            counts, run, done, unsupported = empty(), self.start(), 0, np.zeros(1, np.int64)
            no_trail = np.empty((0, 0, 2), np.int64)
            while (shard := take()) is not None:
                run(*shard, places, *_arrays(counts), unsupported, no_trail)
                done += shard[1] - shard[0]
            return replace(counts, trials=done, unsupported=int(unsupported[0]))

        shard = TRIALS_PER_SHARD if self.calls == 1 else TRIALS_PER_SMALL_SHARD
        return sum(run_on_threads(work, first_trial, trials, threads, shard), empty())

    def trails(self, positions: int) -> Callable[[int, int], Ints]:
        """Return the function that runs trials from a first to an end and keeps their tokens.

        It gives int64 (trials, positions, 2), state and token of each position, -1 where none is
        emitted.
        """
        run, counts, nothing = self.start(), self._empty(), np.zeros(1, np.int64)

        def emitted(first: int, end: int) -> Ints:
            trail = np.full((end - first, positions, 2), -1, np.int64)
            run(first, end, nothing[:0], *_arrays(counts), nothing, trail)
            return trail

        return emitted

    def sample(self, n: int, positions: int) -> "TokenSample":
        """Return the first ``n`` tokens at the first ``positions`` of the trials 0, 1, ..."""
        # The fewest tokens of a trial.
        least = positions if self.calls >= positions else 1
        emitted, parts, total, first = self.trails(positions), [], 0, 0
        while total < n:
            trials = min(TRIAL_CHUNK, -(-(n - total) // least))
            trail = emitted(first, first + trials)
            uniforms = np.empty((positions + positions % 2, trials))
            fill_tile(np.uint64(self.seed), first, PIT, 0, uniforms)
            trial, position = np.nonzero(trail[:, :, 1] >= 0)
            states, tokens = trail[trial, position].T
            parts.append((states, tokens, position, uniforms[position, trial]))
            total += len(tokens)
            first += trials
        return TokenSample(*(np.concatenate(column)[:n] for column in zip(*parts, strict=True)))

    def _empty(
        self, transition_shape: tuple[int, int, int] = (0, 1, 1), pit_positions: int = 0
    ) -> Counts:
        shapes = (self.gamma + 1,), (2, self.calls), transition_shape, (2, pit_positions, PIT_BINS)
        accepted, lengths, transitions, pits = (np.zeros(shape, np.int64) for shape in shapes)
        return Counts(0, accepted, lengths, transitions, pits, 0)


def _arrays(counts: Counts) -> tuple[Ints, ...]:
    return counts.accepted, counts.lengths, counts.transitions, counts.pits


def chain_loop(
    tables: Any, rule: str, gamma: int, *, seed: int, calls: int = 1, eos: int | None = None
) -> Loop:
    """Return the loop over generations of at most ``calls`` calls under the rule named ``rule``."""
    number, stop = rule_number(rule), -1 if eos is None else eos

    def run(begin: int, end: int, *counted: Any) -> None:
        generate(tables, number, gamma, np.uint64(seed), begin, end, calls, stop, *counted)

    return Loop(lambda: run, gamma, seed, calls)


def simulate(
    tables: Any,
    rule: str,
    gamma: int,
    trials: int,
    *,
    seed: int,
    threads: int,
    calls: int = 1,
    eos: int | None = None,
    **counted: Any,
) -> Counts:
    """Run ``trials`` generations under the rule named ``rule``; see :meth:`Loop.count`."""
    loop = chain_loop(tables, rule, gamma, seed=seed, calls=calls, eos=eos)
    return loop.count(trials, threads, **counted)


def rule_number(name: str) -> int:
    """Return the number by which the decoding loop knows a rule.

    Raises ``UsageError`` for one that it does not know.
    """
    kernel = resolve_part(get_verifier(name).kernel)
    if kernel is None:
        raise UsageError(f"{name} has no kernel: give compare its function, which it then calls")
    if not isinstance(kernel, int):
        raise UsageError(
            f"the kernel of {name} judges single calls: several calls, or a rule with state, need "
            "a rule of the decoding loop"
        )
    return kernel


def default_threads() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_on_threads(
    work: Callable[[Callable[[], tuple[int, int] | None]], Any],
    first: int,
    trials: int,
    threads: int,
    shard: int = TRIALS_PER_SHARD,
) -> list[Any]:
    """Run ``work`` on each thread; it takes shards of trials until none is left."""
    shards: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    for begin in range(0, trials, shard):
        shards.put((first + begin, first + min(begin + shard, trials)))

    def take() -> tuple[int, int] | None:
        try:
            return shards.get_nowait()
        except queue.Empty:
            return None

    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(work, take) for _ in range(threads)]
        return [future.result() for future in futures]
    finally:
        # A broken run, Ctrl-C included, empties the queue so that the threads end soon; it
        # does not wait for them, since one may be compiling.
        while take() is not None:
            pass
        pool.shutdown(wait=False)


# E[tau] of the ngram model, which has no exact law: every context is visited.
#
# A block of ``ngram`` starts in one of n held-out contexts, equally likely. Each is a stratum,
# so the differences between contexts, nine tenths of the variance, drop out; a context that
# occurs k times splits its first draw into k equal parts.


Words = npt.NDArray[np.uint64]

FIRST_TRIAL = 1 << 62  # first trial whose draws are read: addresses that no measurement reads
STRATA_PER_SHARD = 1 << 12  # strata a thread takes at a time

_LAST_BYTE = np.uint64(0xFF)


@dataclass(frozen=True, eq=False)
class RaoBlackwell:
    """Means over ``strata`` pairs of independent paths; see ``kernels.rao_blackwell``.

    ``mean`` float64 (gamma+1,): entry l-1 estimates Pr(tau >= l), the last one E[tau].
    ``variance`` (gamma+1,): mean over strata of half the squared difference of a pair, an
    unbiased estimate of one path's mean variance within its stratum.
    """

    strata: int
    mean: Floats
    variance: Floats


def rao_blackwell(
    model: NgramModel, gamma: int, *, seed: int, threads: int, rounds: int = 1
) -> dict[str, RaoBlackwell]:
    """Estimate the acceptance curve and E[tau] of token, block, greedy and match.

    One pair of paths from each of the model's contexts, ``rounds`` times over. Neither
    ``threads`` nor their timing changes the result.
    """
    rows = count_rows(model)
    # Context and range of the first uniform of each stratum, ``rounds`` times.
    contexts = np.sort(np.tile(_context_codes(model), rounds))
    _, index, counts = np.unique(contexts, return_inverse=True, return_counts=True)
    part = np.arange(len(contexts)) - (np.cumsum(counts) - counts)[index]
    width = 1.0 / counts[index]
    low = part * width

    def work(take: Any) -> list[tuple[int, Floats]]:
        parts = []
        while (shard := take()) is not None:
            begin, end = shard
            moments = np.zeros((2, len(RULES), gamma + 1))
            accumulate(
                rows,
                contexts[begin:end],
                low[begin:end],
                width[begin:end],
                np.uint64(seed),
                FIRST_TRIAL + PAIR * begin,
                moments[0],
                moments[1],
            )
            parts.append((begin, moments))
        return parts

    results = run_on_threads(work, 0, len(contexts), threads, STRATA_PER_SHARD)
    # Floating-point sums in the order of the shards, whoever computed them.
    parts = sorted((part for result in results for part in result), key=lambda part: part[0])
    mean, variance = np.sum([moments for _, moments in parts], axis=0) / len(contexts)
    return {name: RaoBlackwell(len(contexts), mean[i], variance[i]) for i, name in enumerate(RULES)}


def modes_curve(model: NgramModel, gamma: int) -> Floats:
    """Exact Pr(tau >= l), l = 1..gamma, at temperature 0: the one path that is kept.

    float64 (gamma,), up to rounding: the product of q at the target's modes along that path,
    averaged over the contexts.
    """
    contexts, counts = np.unique(_context_codes(model), return_counts=True)
    chances = np.empty((len(contexts), gamma))
    follow_modes(count_rows(model), contexts, chances)
    curve: Floats = (np.cumprod(chances, axis=1) * (counts / counts.sum())[:, None]).sum(axis=0)
    return curve


def count_rows(model: NgramModel) -> tuple[Any, Floats, npt.NDArray[np.int64]]:
    """Return what ``kernels.rao_blackwell`` reads rows from: plain counts and draft rows."""
    rows = np.full((1, VOCAB_SIZE), 1.0 / VOCAB_SIZE)
    row_of = np.zeros(1, np.int64)
    for length, order in enumerate(model.orders[:DRAFT_LENGTH]):
        # An unseen context passes to the shorter one, whose row stays in the table.
        shorter = row_of[np.arange(256**length) % len(row_of)]
        seen = order.contexts.astype(np.int64)
        row_of = shorter.copy()
        row_of[seen] = len(rows) + np.arange(len(seen))
        rows = np.vstack([rows, _longer_context_rows(order, rows[shorter[seen]])])
    long_orders = tuple(
        (
            order.contexts,
            np.uint64(256**length - 1),
            order.starts,
            (order.codes & _LAST_BYTE).astype(np.uint8),
            order.counts,
        )
        for length, order in enumerate(model.orders)
        if length >= DRAFT_LENGTH
    )
    return long_orders, rows, row_of


def _longer_context_rows(order: NgramOrder, lower: Floats) -> Floats:
    """Rows after the contexts of ``order`` from the rows ``lower`` after the shorter ones."""
    kinds = np.diff(order.starts)
    context = np.repeat(np.arange(len(kinds)), kinds)
    total = order.totals + kinds
    rows = lower * (kinds / total)[:, None]
    rows[context, (order.codes & _LAST_BYTE).astype(np.intp)] += order.counts / total[context]
    return rows


def _context_codes(model: NgramModel) -> Words:
    """Return the contexts (n,), their bytes packed big-endian."""
    return np.ascontiguousarray(model.contexts).view(">u4").ravel().astype(np.uint64)


# Inputs and outputs of the compiled loops: a model's rows as tables, and cells of tokens.
#
# Cells are counted where a vocabulary is too large to count every token. A hash deals the tokens
# out, so that a cell has no more to do with a model's own structure (state = token mod 64) than
# with the order of its tokens.


_MAX_PLACE_CELLS = 1 << 14
"""Beyond, finding a place takes a few steps more, and the table would grow with V."""

_MAX_GUIDE_CELLS = 1 << 16
"""The same for the support of a law; its search walks, so it needs cells of few tokens."""


def model_tables(model: Model) -> Any:
    """Return the tables of ``model`` for the compiled loops; ``TypeError`` if it has none."""
    if isinstance(model, MarkovModel):
        return markov_tables(model)
    if isinstance(model, NgramModel):
        return ngram_tables(model)
    raise TypeError(f"no compiled tables for {type(model).__name__}")


def markov_tables(model: MarkovModel) -> MarkovTables:
    """Return the sorted prefix sums and alias tables of a Markov model."""
    # Filled row by row: at V = 152,064 one more table of floats is 79 MB.
    p = stack_rows(model.target_rows, model.target_start)
    q = stack_rows(model.draft_rows, model.draft_start)
    rows, size = p.shape
    cut, alias = np.empty_like(p), np.empty(p.shape, np.int32)
    build_alias(q, cut, alias)
    ratio, inverse = np.empty_like(p), np.empty_like(p)
    order, rank = np.empty(p.shape, np.int32), np.empty(p.shape, np.int32)
    guide = np.empty((rows, min(2 * size, _MAX_GUIDE_CELLS) + 1), np.int32)
    sums, minus = np.empty((2, rows, size + 1)), np.zeros((2, rows))
    # A power of two, so that no rounding moves u to another cell.
    cells = 1 << min(2 * size - 1, _MAX_PLACE_CELLS - 1).bit_length()
    places = np.empty((2, rows, cells + 1), np.int32)
    index_sums = np.empty((rows, -(-size // INDEX_STEP)))
    for r in range(rows):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = np.where(p[r] > 0, q[r] / p[r], np.inf)
            ratio[r] = np.where(p[r] > 0, p[r] / q[r], 0.0)
        tokens = np.argsort(quotient, kind="stable")
        order[r] = tokens
        rank[r, tokens] = np.arange(size, dtype=np.int32)
        inverse[r] = quotient[tokens]
        guide[r] = _search_starts(inverse[r], guide.shape[1] - 1)
        sums[:, r] = _prefix_sums(p[r][tokens]), _prefix_sums(q[r][tokens])
        support, above = int(np.sum(inverse[r] < np.inf)), int(np.sum(inverse[r] < 1))
        residual = sums[0, r] - sums[1, r]
        minus[1, r] = residual[above] > 0
        if not minus[1, r]:
            # Residual mass of zero can only be rounding: the target row stands in for it.
            residual, above = sums[0, r], support
        places[0, r] = _cell_places(sums[0, r], support, cells)
        places[1, r] = _cell_places(residual, above, cells)
        index_sums[r] = _prefix_sums(p[r])[:-1:INDEX_STEP]
    mode = np.argmax(p, axis=1).astype(np.int32)
    successor = (np.arange(model.vocab_size) % model.states).astype(np.int32)
    parts: list[Any] = [cut, alias, order, rank, inverse, guide, sums, minus, places, index_sums]
    parts += [mode, successor]
    return MarkovTables(p, q, ratio, *parts)


def stack_rows(rows: Floats, start: Floats) -> Floats:
    """Return the rows (S+1, V), the start last; no copy where they already lie so."""
    whole = rows.base
    if isinstance(whole, np.ndarray) and whole.shape == (len(rows) + 1, rows.shape[1]):
        parts = (whole[:-1], rows), (whole[-1], start)
        if all(a.__array_interface__ == b.__array_interface__ for a, b in parts):
            return whole
    return np.vstack([rows, start])


def _prefix_sums(row: Floats) -> Floats:
    return np.concatenate([np.zeros(1), np.cumsum(row)])


def _search_starts(inverse: Floats, cells: int) -> Ints:
    """Where to start looking for q/p = r in a sorted row, by the cell of r / (1 + r)."""
    with np.errstate(invalid="ignore"):
        place = np.where(np.isinf(inverse), 2.0, inverse / (1 + inverse))
    # A cell's entry lies a rounding error to the left, never beyond what it guides to.
    return np.searchsorted(place, np.arange(cells + 1) / cells - 1e-9)


def _cell_places(sums: Floats, count: int, cells: int) -> Ints:
    """Place in the sorted row that u = cell/cells draws by these prefix sums."""
    # Steps as small as a rounding error may go down; a search needs them sorted.
    sorted_sums = np.maximum.accumulate(sums[:count])
    goals = np.arange(cells + 1) / cells * sums[count]
    places: Ints = np.searchsorted(sorted_sums, goals, side="right") - 1
    return places


COARSE_CELLS = 64

MAX_CONTEXT_CELLS = 1 << 17
"""Most entries of a Markov model's rows for which every token is counted after every context.

That is V = 2016 for 64 states. Beyond it, refuting a TV of .01 takes hundreds of millions of
tokens; randomised PITs are used instead.
"""

MAX_TABLE_ENTRIES = 1 << 22
"""Most entries of a table of counts, positions x rows x cells: 32 MB a thread."""


def fine_cell_count(vocab_size: int, rows: int, positions: int) -> int:
    """Return how many cells a table of counts has room for; all tokens, or a multiple of 64."""
    room = MAX_TABLE_ENTRIES // (rows * positions)
    if vocab_size <= max(room, COARSE_CELLS):
        return vocab_size
    return COARSE_CELLS * max(room // COARSE_CELLS, 1)


def cell_of_token(vocab_size: int, count: int) -> Ints:
    """Return the cell of each token, int64 (V,): its own, or one of ``count`` by a hash.

    The cells' sizes differ by one at most. Cells of 64 ``count`` taken mod 64 are those of 64.
    """
    tokens = np.arange(vocab_size)
    if count >= vocab_size:
        return tokens
    # The finaliser of splitmix64; its ranks deal out the cells evenly.
    x = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    cells = np.empty(vocab_size, np.int64)
    cells[np.argsort(x, kind="stable")] = tokens % count
    return cells


def coarse_cells(fine: int, vocab_size: int) -> Ints:
    """Return which of the 64 coarse cells holds each of the ``fine`` ones, int64 (fine,)."""
    if fine == vocab_size:
        return cell_of_token(vocab_size, COARSE_CELLS)
    return np.arange(fine) % COARSE_CELLS


def merge_cells(table: npt.NDArray[Any], cells: Ints) -> npt.NDArray[Any]:
    """Sum the columns of ``table`` (rows, n) that share a cell; ``cells`` int64 (n,)."""
    # Row by row: at V = 152,064 a copy of the rows is 79 MB. Counts stay exact below 2^53.
    sums: npt.NDArray[Any] = np.array([np.bincount(cells, row) for row in table])
    return sums.astype(table.dtype)


# The first tokens that a run emits, each with its rows, which counts by context do not keep.
#
# Every draw has an address, so the same trials are run again and their tokens written out. They are
# the first n in the order of trials and positions; n is fixed beforehand, and the last trial is cut
# there. So each token follows its own target row, given all before it, whatever the rule accepted.


TRIAL_CHUNK = 1 << 13  # trials that are run at a time

_MAX_ROW_ENTRIES = 1 << 20
"""Entries of target rows that a thread lays out at a time, 8 MB; draft rows are as many."""

_MAX_ROW_THREADS = 4  # most threads that lay out rows, however many add up their features


@dataclass(frozen=True, eq=False)
class TokenSample:
    """Emitted tokens in the order of trials and positions, arrays (n,).

    ``states``: int64, each token's context; ``tokens`` and ``positions`` int64; ``uniforms``:
    float64 in [0, 1), those that randomise the PITs of the run's own counts.
    """

    states: Ints
    tokens: Ints
    positions: Ints
    uniforms: Floats


def sample_tokens(
    tables: Any, rule: str, gamma: int, n: int, *, seed: int, calls: int, positions: int
) -> TokenSample:
    """Return the first ``n`` tokens at the first ``positions`` of the trials 0, 1, ...

    A trial makes at most ``calls`` calls, and is over once its positions are full.
    """
    return chain_loop(tables, rule, gamma, seed=seed, calls=calls).sample(n, positions)


@dataclass(frozen=True, eq=False)
class RowLookup:
    """Target and draft rows of a model, float64 (n, V) each: ``lookup`` of states int64 (n,)."""

    vocab_size: int
    lookup: Callable[[Ints], tuple[Floats, Floats]]

    @classmethod
    def of(cls, model: Model, tables: Any) -> "RowLookup":
        """Return the rows behind the states of ``tables``, which are those of ``model``."""
        if isinstance(model, MarkovModel):
            target = stack_rows(model.target_rows, model.target_start)
            draft = stack_rows(model.draft_rows, model.draft_start)
            return cls(model.vocab_size, lambda states: (target[states], draft[states]))

        def lookup(states: Ints) -> tuple[Floats, Floats]:
            p, q = np.empty((2, len(states), model.vocab_size))
            fill_rows(tables, states, p, q)
            return p, q

        return cls(model.vocab_size, lookup)

    def parts(self, n: int) -> Iterator[slice]:
        """Parts of ``n`` tokens whose rows are laid out at a time."""
        size = max(1, _MAX_ROW_ENTRIES // self.vocab_size)
        return (slice(begin, min(begin + size, n)) for begin in range(0, n, size))


def sample_features(
    sample: TokenSample, rows: RowLookup, judged: npt.NDArray[np.bool_], threads: int
) -> Features:
    """Sum up the features of a sample; ``judged`` bool (n,) as :func:`features` takes it.

    All tokens that follow each other are pairs, from one trial to the next too. Those within
    trials alone would be selected by whether the first of them ended its trial.
    """
    follows = np.ones(len(sample.tokens), bool)
    layers = min(threads, _MAX_ROW_THREADS)

    def work(part: slice) -> Features:
        return features(
            *rows.lookup(sample.states[part]),
            sample.tokens[part],
            sample.uniforms[part],
            judged=judged[part],
            follows=follows[part],
            threads=threads // layers,
        )

    parts = list(rows.parts(len(sample.tokens)))
    with ThreadPoolExecutor(layers) as pool:
        # As many at a time as there are threads, or results would pile up before the sum.
        rounds = (parts[i : i + layers] for i in range(0, len(parts), layers))
        return reduce(add, (more for some in rounds for more in pool.map(work, some)))


def pits_and_ratios(
    sample: TokenSample, rows: RowLookup, judged: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """PITs (3, n) in the orders of ``features.ORDERS``, and P_m/P (M, n) of its faults."""
    records = np.empty((len(sample.tokens), feature_kernels.RECORD))
    ratios = np.empty((len(sample.tokens), len(feature_kernels.FAULTS)))
    for part in rows.parts(len(sample.tokens)):
        feature_kernels.fill(
            *rows.lookup(sample.states[part]),
            sample.tokens[part],
            sample.uniforms[part],
            judged[part],
            records[part],
            ratios[part],
        )
    columns = [feature_kernels.PIT_RATIO, feature_kernels.PIT_INDEX, feature_kernels.PIT_DESCENDING]
    return records.T[columns], ratios.T


# The ngram model's counts as the arrays that its kernels read.


_BYTE_BITS = np.uint64(8)


def ngram_tables(model: NgramModel) -> NgramTables:
    """Return the tables of a trained model.

    Raises ``ValueError`` if the model has more contexts than a state can tell apart.
    """
    for length, bits in (
        (2, ROW_BITS),
        (3, NODE3_BITS),
        (4, NODE4_BITS),
    ):
        contexts, room = len(model.orders[length].contexts), 2**bits - VOCAB_SIZE - 1
        if contexts > room:
            raise ValueError(
                f"model has {contexts} contexts of {length} bytes and a state tells {room} apart: "
                f"train on less text"
            )
    trigrams, fourgrams, fivegrams = model.orders[2:]
    pairs = trigrams.contexts
    q = _ngram_draft_rows(model)
    row_of_pair = np.arange(2**16) % VOCAB_SIZE + len(pairs)
    row_of_pair[pairs] = np.arange(len(pairs))

    rows = row_of_pair[fourgrams.codes >> _BYTE_BITS & np.uint64(0xFFFF)]
    q3 = q[rows, fourgrams.codes & _LAST_BYTE]
    p3 = _interpolate_order(fourgrams, q3)
    up = find_sorted(fourgrams.codes, fivegrams.codes & np.uint64(0xFFFFFFFF))
    p4 = _interpolate_order(fivegrams, p3[up])

    # The row after a token ends in the row's last byte and the token.
    last_byte = np.concatenate([pairs & _LAST_BYTE, np.arange(VOCAB_SIZE, dtype=np.uint64)])
    following = row_of_pair[
        last_byte[:, None] << _BYTE_BITS | np.arange(VOCAB_SIZE, dtype=np.uint64)
    ]
    node3 = (np.arange(len(fourgrams.contexts)) + 1) << ROW_BITS
    row = row_of_pair[fourgrams.contexts >> _BYTE_BITS]
    following[row, fourgrams.contexts & _LAST_BYTE] |= node3
    return NgramTables(
        starts=_held_out_states(model, row_of_pair),
        alias=_alias_cells(q),
        following=following,
        draft=q,
        sums=np.hstack([np.zeros((len(q), 1)), np.cumsum(q, axis=1)]),
        peak=q.max(axis=1),
        peak_token=q.argmax(axis=1).astype(np.uint8),
        nodes3=_node_records(fourgrams),
        token3=_shift_by_one((fourgrams.codes & _LAST_BYTE).astype(np.uint8)),
        draft3=_shift_by_one(q3),
        ratio3=_shift_by_one(p3 / q3),
        child3=_shift_by_one(
            (find_sorted(fivegrams.contexts, fourgrams.codes) + 1) << (ROW_BITS + NODE3_BITS)
        ),
        nodes4=_node_records(fivegrams),
        up4=_shift_by_one((up + 1).astype(np.uint32)),
        ratio4=_shift_by_one(p4 / q3[up]),
    )


def _ngram_draft_rows(model: NgramModel) -> Floats:
    """Rows (R, 256) of q after each seen pair, then after each single byte."""
    singles, pairs, triples = model.orders[:DRAFT_LENGTH]
    alone = _context_rows(singles, np.full((1, VOCAB_SIZE), 1.0 / VOCAB_SIZE))
    after_byte = np.repeat(alone, VOCAB_SIZE, axis=0)
    after_byte[pairs.contexts] = _context_rows(pairs, after_byte[pairs.contexts])
    return np.vstack(
        [_context_rows(triples, after_byte[triples.contexts & _LAST_BYTE]), after_byte]
    )


def _context_rows(order: NgramOrder, lower: Floats) -> Floats:
    """Whole row after each context of ``order``, from that after its shorter context."""
    kinds = np.diff(order.starts)[:, None]
    counts = np.zeros(lower.shape)
    counts[np.repeat(np.arange(len(kinds)), kinds[:, 0]), order.codes & _LAST_BYTE] = order.counts
    return (counts + kinds * lower) / (order.totals[:, None] + kinds)


def _interpolate_order(order: NgramOrder, lower: Floats) -> Floats:
    """Probability of each n-gram of ``order`` from that of its shorter context."""
    kinds = np.diff(order.starts)
    context = np.repeat(np.arange(len(kinds)), kinds)
    return (order.counts + kinds[context] * lower) / (order.totals + kinds)[context]


def _node_records(order: NgramOrder) -> Words:
    """Node records: an empty one, one per context, and the sentinel."""
    kinds = np.diff(order.starts)
    context = np.repeat(np.arange(len(kinds)), kinds)
    token = order.codes & _LAST_BYTE
    nodes = np.zeros((len(kinds) + 2, NODE_WORDS), np.uint64)
    word = (token >> np.uint64(6)).astype(np.intp)
    np.bitwise_or.at(nodes, (context + 1, word), np.uint64(1) << (token & np.uint64(63)))
    nodes[1:, 4] = order.starts + 1
    nodes[0, 4] = 1
    below = np.cumsum(np.bitwise_count(nodes[:, :3]), axis=1, dtype=np.uint64)
    for i in range(3):
        nodes[:, 4] |= below[:, i] << np.uint64(40 + 8 * i)
    keep = np.ones(len(nodes))
    keep[1:-1] = kinds / (order.totals + kinds)
    nodes[:, 5] = keep.view(np.uint64)
    return nodes


def _alias_cells(q: Floats) -> Words:
    cut, token = np.empty_like(q), np.empty(q.shape, np.int32)
    build_alias(q, cut, token)
    return np.rint(cut * 2.0**CUT_BITS).astype(np.uint64) << _BYTE_BITS | token.astype(np.uint64)


def _held_out_states(model: NgramModel, row_of_pair: Ints) -> Ints:
    """States (n,) of the held-out contexts."""
    codes = _context_codes(model)
    node4 = find_sorted(model.orders[4].contexts, codes) + 1
    node3 = find_sorted(model.orders[3].contexts, codes & np.uint64(0xFFFFFF)) + 1
    row = row_of_pair[codes & np.uint64(0xFFFF)]
    states: Ints = node4 << (ROW_BITS + NODE3_BITS) | node3 << ROW_BITS | row
    return states


def _shift_by_one(values: Any) -> Any:
    """Make room for entry 0, which stands for no follower."""
    return np.concatenate([np.zeros(1, values.dtype), values])

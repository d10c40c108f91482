"""Do the calls and the rows of a batch depend on each other? Pairs of emissions of one instance.

Consecutive calls, calls and rows at a few lags, and for what these pool away every single pair
of rows, within a call and from one call to the next: row 3 may share row 10's stream alone, and
row 0 may go on with what the last row of the call before has left.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.auditing.sampled.emissions import Emissions
from simverify.auditing.sampled.tables import Tables
from simverify.stats.pits.correlation import MIN_PAIRS, PairSums

MAX_ROWS = 256
"""Rows of a batch whose pairs are tested one by one; of larger ones, the first so many."""


CALLS_APART = (2, 3, 8, 64, 256)
"""Coins that come back: every second block those of a few calls before, rings of 64 and 256."""


def independence_tests(
    tables: Tables, emissions: Emissions, uniforms: Floats, rows: int | None, alpha: float
) -> Iterator[stats.TestResult]:
    """Test pairs of calls in a row, and pairs of rows of a batch.

    ``uniforms`` (n,) randomise the PITs of the completed outputs; ``rows`` per call.
    """
    size = rows or 1
    share = stats.split_alpha(alpha, {"lags": 1.0, "every pair": 1.0} if size > 1 else {"lags": 1})
    law = tables.joint(tables.length)
    codes = tables.codes(emissions.tokens, tables.length)
    above = np.cumsum(law)
    pits = np.clip(above[codes] - (1.0 - uniforms) * law[codes], 0.0, 1.0)
    yield from _lags(tables, emissions.tokens[:, 0], codes, pits, size, share["lags"])
    if size > 1:
        calls = len(codes) // size
        shape, kept = (calls, size), min(size, MAX_ROWS)
        every = codes.reshape(shape)[:, :kept], pits.reshape(shape)[:, :kept]
        if calls > 1:
            yield from _every_pair(*every, float((law**2).sum()), share["every pair"])


def _lags(
    tables: Tables, firsts: Ints, codes: Ints, pits: Floats, size: int, alpha: float
) -> Iterator[stats.TestResult]:
    n = len(codes)
    lags = {"consecutive calls": (size, n)}
    lags |= {f"calls {k} apart": (k * size, n) for k in CALLS_APART if 2 * k * size <= n}
    lags |= {
        f"batch rows {lag} apart": (lag, size)
        for lag in sorted({1, 2, size // 2})
        if 0 < lag < size
    }
    alpha /= 5 * len(lags)
    chance = float((tables.joint(tables.length) ** 2).sum())
    for name, (lag, span) in lags.items():
        first = np.arange(n - lag)
        first = first[first % span + lag < span] if span < n else first
        if len(first) >= MIN_PAIRS:
            pairs = stats.pair_sums(pits[first], pits[first + lag])
            yield stats.pit_correlation(pairs, alpha=alpha, name=f"{name}: correlation")
        for phase in range(2):
            if span == n:
                first = stats.disjoint_pairs(n, lag, phase)
            else:
                first = _inside(n, span, lag, phase)
            if not len(first):
                continue
            second, half = first + lag, f"{name}, phase {phase}"
            g2 = stats.pair_g2(firsts[first], firsts[second], tables.target[0][0])
            if g2.df > 0:
                test = stats.g2_test(g2, alpha=alpha, name=f"{half}: pairs of first tokens")
                yield replace(test, deviation="TV of the pair's law")
            equal = int((codes[first] == codes[second]).sum())
            yield stats.duplicates_test(
                equal, len(first), chance, alpha=alpha, name=f"{half}: equal outputs"
            )


def _inside(n: int, span: int, lag: int, phase: int) -> Ints:
    """Disjoint pairs at ``lag`` within each of the batches of ``span`` rows."""
    within = stats.disjoint_pairs(span, lag, phase)
    return (np.arange(0, n, span)[:, None] + within).ravel()


def _every_pair(
    codes: Ints, pits: Floats, chance: float, alpha: float
) -> Iterator[stats.TestResult]:
    """Test every pair of different rows (calls, rows), of one call and of two in a row.

    Over the calls, pairs of the same two rows share no member. The worst pair speaks, with
    Bonferroni over all of them.
    """
    size = codes.shape[1]
    lags = np.arange(1, size)
    rows = np.arange(size)
    pairs = {
        "rows {} and {} of a call": (codes, codes, pits, pits, rows[:, None] < rows),
        "row {} and the next call's row {}": (
            codes[:-1], codes[1:], pits[:-1], pits[1:], rows[:, None] != rows,
        ),
    }  # fmt: skip
    number = sum(int(allowed.sum()) for *_, allowed in pairs.values())
    each = alpha / (2 * len(pairs))
    for name, (first, second, u, v, allowed) in pairs.items():
        n = len(first)
        equal = np.zeros((size, size), dtype=np.int64)
        for lag in lags:
            # Row i of the first with row i + lag of the second, counted round.
            found = (first == np.roll(second, -lag, axis=1)).sum(axis=0)
            equal[rows, (rows + lag) % size] = found
        i, j = np.unravel_index(int(np.where(allowed, equal, -1).argmax()), equal.shape)
        test = stats.duplicates_test(
            int(equal[i, j]), n, chance, alpha=each / number,
            name=name.format(i + 1, j + 1) + ": equal outputs",
        )  # fmt: skip
        yield _of_many(test, number, each)
        if n >= MIN_PAIRS:
            products = (u - 0.5).T @ (v - 0.5)
            i, j = np.unravel_index(
                int(np.where(allowed, np.abs(products), -1.0).argmax()), products.shape
            )
            spread = float(np.abs(u[:, i] - 0.5).sum())
            sums = PairSums(n=n, products=float(products[i, j]), spreads=spread)
            title = name.format(i + 1, j + 1) + ": correlation"
            test = stats.pit_correlation(sums, alpha=each / number, name=title)
            yield _of_many(test, number, each)


def _of_many(test: stats.TestResult, number: int, alpha: float) -> stats.TestResult:
    """Return the test of the worst of ``number`` pairs as one of all of them."""
    log_p = min(0.0, test.log_pvalue + math.log(number))
    method = f"{test.method}, Bonferroni over {number} pairs"
    return replace(test, log_pvalue=log_p, alpha=alpha, method=method)

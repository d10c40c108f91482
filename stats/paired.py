"""Paired samples: tests whether one of two engines differs from the other, by swaps within pairs.

Sign tests, sums of squares with a tail that holds whatever the counts, bets on directions and on
a kernel, and permutations of whole answers.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize, sparse, special

from simverify.stats._checks import (
    Floats,
    TestResult,
    check_counts,
    check_open_unit,
    check_positive_int,
)
from simverify.stats.tails import log_binom_sf

# Differences within pairs, summed along directions that were fixed without knowing the signs.


DIRECTION_BET_SIZES = (3.0, 4.5, 6.0, 8.0, 11.0, 15.0, 21.0, 30.0)
"""Standardised sums that are bet on."""

_LN2 = math.log(2.0)


def direction_evalues(differences: Any) -> Floats:
    """Return the log of each direction's e-value, float64 (F,).

    Under the null the sign of each row is fair given all absolute values, so that a factor exp(l d)
    / cosh(l d) has expectation 1. The bets l are set by the sum of squares, which knows no sign,
    and both sides are bet on. ``differences``: float64 (n, F), what the first of a pair has more
    than the second, for each of n pairs; finite. Raises ``ValueError`` if there is no direction, or
    an entry is not finite.
    """
    d = _check_finite("differences", differences)
    largest = np.abs(d).max(axis=0)
    d = d / np.where(largest > 0.0, largest, 1.0)
    squares = (d * d).sum(axis=0)
    scale = 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0))
    logs = []
    for size in DIRECTION_BET_SIZES:
        bet = size * scale
        price = _log_cosh(d * bet).sum(axis=0)
        total = d.sum(axis=0) * bet
        logs += [total - price, -total - price]
    log_means: Floats = special.logsumexp(np.stack(logs), axis=0) - math.log(len(logs))
    return log_means


def directions_test(
    differences: Any, *, alpha: float, name: str, per_pair: float = 1.0, deviation: str = "shift"
) -> TestResult:
    """Test that pairs may be swapped by the mean of the directions' e-values.

    ``statistic`` is its logarithm. ``min_detectable`` is the shift of the mean difference, over
    ``per_pair``, that is found with power .9 along the direction that varies most. ``differences``:
    float64 (n, F), as :func:`direction_evalues` takes them. ``per_pair``: what a difference is
    counted in, such as the units of an answer. Raises ``ValueError`` if there is no direction, an
    entry is not finite, alpha is outside (0, 1) or per_pair is not above 0.

    Source: [1] de la Pena, "A general class of exponential inequalities for martingales and
    ratios", Annals of Probability 27 (1999) 537-564 (symmetric differences, normalised by their
    squares); [2] Vovk and Wang, "E-values: calibration, combination and applications", Annals of
    Statistics 49 (2021) 1736-1754 (the mean of e-values is one).
    """
    alpha, d = check_open_unit("alpha", alpha), _check_finite("differences", differences)
    if not per_pair > 0.0:
        raise ValueError(f"per_pair is {per_pair}, expected above 0")
    logs = direction_evalues(d)
    log_evalue = float(special.logsumexp(logs)) - math.log(logs.size)
    largest = float(np.abs(d).max())
    spread = float((d * d).sum(axis=0).max()) if largest < 1e100 else math.inf
    shift = math.inf
    if spread < math.inf:
        shift = needed_shift(alpha, logs.size, spread) / (len(d) * per_pair)
    return TestResult(
        name=name,
        statistic=log_evalue,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=len(d),
        method=f"e-value of swaps, mean over {logs.size} directions",
        min_detectable=shift if shift < 1.0 else math.inf,
        deviation=deviation,
    )


def needed_shift(alpha: float, directions: int, spread: float) -> float:
    """Return the sum of differences that is found with power .9.

    ``directions``: of which one is off. ``spread``: sum of its squared differences without a shift,
    0 or more. Raises ``ValueError`` if alpha is outside (0, 1), directions below 1 or spread
    negative.
    """
    alpha = check_open_unit("alpha", alpha)
    directions = check_positive_int("directions", directions)
    if not 0.0 <= spread < math.inf:
        raise ValueError(f"spread is {spread}, expected 0 or more, and finite")
    price = math.log(1.0 / alpha) + math.log(2 * len(DIRECTION_BET_SIZES) * directions)
    # With few differences a swap each is all there is: log 2 is won by one that tells.
    fewest = price / _LN2 + 1.2816 * math.sqrt(price / _LN2)
    return max((math.sqrt(2.0 * price) + 1.2816) * math.sqrt(spread), fewest)


def _log_cosh(x: Floats) -> Floats:
    size = np.abs(x)
    result: Floats = size + np.log1p(np.exp(-2.0 * size)) - _LN2
    return result


def _check_finite(name: str, values: Any) -> Floats:
    d = np.asarray(values, dtype=np.float64)
    if d.ndim != 2 or not d.size:
        raise ValueError(f"{name} has shape {d.shape}: expected (n, F), n and F 1 or more")
    if not np.isfinite(d).all():
        raise ValueError(f"{name} holds NaN or infinity: expected finite numbers")
    return d


# Pairs that differ alike: each pair's difference against those before it, by a kernel.


KERNEL_BET_SIZES = (3.0, 5.0, 7.0, 10.0, 15.0, 25.0)  # standardised sums that are bet on
_ORDER_COUNT = 8


def agreement_test(grams: Any, *, alpha: float, name: str, seed: int = 0) -> TestResult:
    """Test that pairs may be swapped by whether they differ in the same direction.

    The inner product of two pairs' differences, k(a, a') + k(b, b') - k(a, b') - k(b, a'), changes
    its sign when either is swapped. The sum over pairs of pairs is what a kernel two-sample
    statistic estimates. Pair after pair, the sum of a pair's products with those before is a number
    whose sign is fair under the null, so that exp(l g) / cosh(l g) has expectation 1; the bets l
    are set by the squared products, which know no sign. The mean over bets and over some orders of
    the pairs is an e-value, and its inverse the p-value, at any level. ``grams``: sequence of
    float64 (n_k, n_k), symmetric inner products of the differences of pairs that may agree, such as
    those of one prompt; the diagonal is not looked at. ``seed``: of the orders. Raises
    ``ValueError`` if there is no such array, one is not square or not finite, or alpha is outside
    (0, 1).

    Source: [1] Gretton et al., "A kernel two-sample test", JMLR 13 (2012) 723-773; [2] Shekhar and
    Ramdas, "Nonparametric two-sample testing by betting", IEEE Trans. Inf. Theory 70 (2024)
    1178-1203.
    """
    alpha, blocks = check_open_unit("alpha", alpha), _check_grams(grams)
    variance = sum(float((np.tril(gram, -1) ** 2).sum()) for gram in blocks)
    rng = np.random.Generator(np.random.Philox(key=seed))
    logs = []
    for _ in range(_ORDER_COUNT):
        orders = (rng.permutation(len(gram)) for gram in blocks)
        shuffled = (gram[np.ix_(x, x)] for gram, x in zip(blocks, orders, strict=True))
        before = np.concatenate([np.tril(gram, -1).sum(axis=1) for gram in shuffled])
        for size in KERNEL_BET_SIZES:
            bet = size / math.sqrt(variance) if variance > 0.0 else 0.0
            logs.append(float((bet * before - _log_cosh(bet * before)).sum()))
    log_evalue = float(special.logsumexp(logs)) - math.log(len(logs))
    return TestResult(
        name=name,
        statistic=log_evalue,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=sum(map(len, blocks)),
        method=(
            f"e-value of swaps, mean over {len(KERNEL_BET_SIZES)} bets and {_ORDER_COUNT} orders"
        ),
        deviation="any that two pairs show alike",
    )


def _check_grams(grams: Any) -> list[Floats]:
    blocks = [np.asarray(gram, dtype=np.float64) for gram in grams]
    if not blocks:
        raise ValueError("grams are none: expected one or more")
    for gram in blocks:
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size:
            raise ValueError(f"a gram has shape {gram.shape}: expected (n, n), n 1 or more")
        if not np.isfinite(gram).all():
            raise ValueError("a gram holds NaN or infinity: expected finite numbers")
    return blocks


# Sign tests of many features at once: what one answer of a pair has and the other lacks.


def discordant_test(first: Any, second: Any, *, n: int, alpha: float, name: str) -> TestResult:
    """Test that pairs may be swapped by things that one of a pair alone has.

    Given how many pairs have a thing once, either side has it alone with chance 1/2: the exact
    two-sided sign test. Things that too few pairs have to reject at all cost nothing, since their
    number of pairs knows no side (Tarone); the smallest p-value times the number of the others is
    the p-value. ``statistic`` is the difference of the thing it belongs to. ``first``, ``second``:
    int (F,), pairs of which the first alone has a thing, and the second alone. ``n``: pairs in all.
    Raises ``ValueError`` if the shapes differ, a count is negative, there is nothing, or alpha is
    outside (0, 1).

    Source: Tarone, "A modified Bonferroni method for discrete data", Biometrics 46 (1990) 515-522.
    """
    alpha = check_open_unit("alpha", alpha)
    a, b = check_counts("first", first, 1), check_counts("second", second, 1)
    if a.shape != b.shape or not a.size:
        raise ValueError(f"first has shape {a.shape}, second {b.shape}: expected (F,), F >= 1")
    either = a + b
    count, least = _testable_pairs(either, alpha)
    worst, log_p = 0, 0.0
    for i in np.flatnonzero(either >= least):
        candidate = math.log(2.0) + log_binom_sf(int(max(a[i], b[i])) - 1, int(either[i]), 0.5)
        if candidate < log_p:
            worst, log_p = int(i), candidate
    return TestResult(
        name=name,
        statistic=float(a[worst] - b[worst]),
        log_pvalue=min(0.0, log_p + math.log(max(count, 1))),
        alpha=alpha,
        n=n,
        method=f"exact sign test, the smallest of {count} p-values times their number",
        deviation="rate of one prefix",
    )


def _testable_pairs(either: Any, alpha: float) -> tuple[int, int]:
    """Return how many things can be told apart, and the pairs that each of them has at least.

    The smallest k such that the things whose least possible p-value is alpha / k or less are k at
    most.
    """
    logs = np.minimum(0.0, (1.0 - np.sort(either)[::-1]) * math.log(2.0))
    for k in range(1, len(logs) + 1):
        able = int((logs <= math.log(alpha / k)).sum())
        if able <= k:
            return able, 1 + math.ceil(math.log2(k / alpha) - 1e-12)
    return len(logs), 1


# Sums of squares of differences within pairs: chi-squares whose tail holds whatever the counts.


_Z_POWER = 1.2816
_MAX_TILT_FRACTION = 1.0 - 1e-12


def quadratic_test(
    blocks: Sequence[Any], *, alpha: float, name: str, deviation: str = "any that pairs share"
) -> TestResult:
    r"""Test that pairs may be swapped by the sum over features of their squared differences.

    With v the rows of a block, a pair's (weighted) differences, and s the signs of its swaps, the
    statistic is the sum over blocks of :math:`|\sum_t s_t v_t|^2`. Weights 1 over a count make it
    the chi-square of two samples. A positive quadratic form in signs has no larger exponential
    moment than the same form in standard normals, which is known from its eigenvalues: Chernoff's
    bound of it is the p-value, at any number of pairs and at any level. ``statistic`` is the sum
    less its mean over all swaps, over its spread. ``blocks``: sequence of or sparse (n_k, F_k),
    differences of the pairs that share features, finite. Weights may depend on both answers of all
    pairs, but not on which of a pair is the first. Raises ``ValueError`` if there is no block, an
    entry is not finite, or alpha is outside (0, 1).

    Source: [1] Hanson and Wright, "A bound on tail probabilities for quadratic forms in independent
    random variables", Annals of Mathematical Statistics 42 (1971) 1079-1083; [2] Gretton et al., "A
    kernel two-sample test", JMLR 13 (2012) 723-773.
    """
    alpha, arrays = check_open_unit("alpha", alpha), _check_blocks(blocks)
    # Tail and statistic know no scale, and squares of any scale are finite so.
    scale = max(float(abs(v).max()) for v in arrays) or 1.0
    arrays = [v / scale for v in arrays]
    values = quadratic_spread(arrays)
    total = math.fsum(float((np.asarray(v.sum(axis=0)).ravel() ** 2).sum()) for v in arrays)
    spread = math.sqrt(2.0 * float((values**2).sum()))
    return TestResult(
        name=name,
        statistic=(total - float(values.sum())) / spread if spread > 0.0 else 0.0,
        log_pvalue=quadratic_log_tail(total, values),
        alpha=alpha,
        n=sum(v.shape[0] for v in arrays),
        df=len(values),
        method="sum of squares over all swaps, Chernoff bound by its eigenvalues",
        deviation=deviation,
    )


def quadratic_spread(blocks: Sequence[Any]) -> Floats:
    """Return the eigenvalues of a sum of squares, float64, each 0 or more: no sign is in them.

    ``blocks``: sequence of or sparse (n_k, F_k), as :func:`quadratic_test` takes them. Raises
    ``ValueError`` if there is no block, or an entry is not finite.
    """
    parts = []
    for v in _check_blocks(blocks):
        gram = v @ v.T if v.shape[0] < v.shape[1] else v.T @ v
        dense = gram.toarray() if sparse.issparse(gram) else gram
        parts.append(np.maximum(np.linalg.eigvalsh(np.asarray(dense, dtype=np.float64)), 0.0))
    values = np.concatenate(parts)
    eigenvalues: Floats = values[values > 1e-12 * values.max(initial=0.0)]
    return eigenvalues


def quadratic_log_tail(total: float, eigenvalues: Floats) -> float:
    """Return the log of a bound on the chance that swaps alone make a sum of squares so large.

    Every point of Chernoff's curve is a bound: that the lowest is found only nearly costs power.
    """
    if not len(eigenvalues) or total <= float(eigenvalues.sum()):
        return 0.0
    largest = float(eigenvalues.max())
    parts = eigenvalues / largest

    def curve(u: float) -> float:
        return float(-0.5 * np.log1p(-u * parts).sum() - u * total / (2.0 * largest))

    minimum = optimize.minimize_scalar(
        curve, bounds=(0.0, _MAX_TILT_FRACTION), method="bounded", options={"xatol": 1e-9}
    )
    return min(0.0, float(minimum.fun))


def needed_excess(alpha: float, eigenvalues: Floats) -> float:
    """Return how much larger than its mean over swaps a sum is, that is found with power .9.

    The threshold is exact; the spread of what is off is that of normal sums. Raises ``ValueError``
    if alpha is outside (0, 1).
    """
    log_alpha = math.log(check_open_unit("alpha", alpha))
    if not len(eigenvalues):
        return math.inf
    mean, square = float(eigenvalues.sum()), 2.0 * float((eigenvalues**2).sum())
    largest = float(eigenvalues.max())
    high = mean + 4.0 * (math.sqrt(square * -log_alpha) - largest * log_alpha)
    total = optimize.brentq(
        lambda x: quadratic_log_tail(x, eigenvalues) - log_alpha, mean, high, rtol=1e-6
    )
    excess = threshold = total - mean
    for _ in range(100):
        excess = threshold + _Z_POWER * math.sqrt(square + 4.0 * largest * excess)
    return float(excess)


def _check_blocks(blocks: Sequence[Any]) -> list[Any]:
    arrays = [
        sparse.csr_array(block, dtype=np.float64)
        if sparse.issparse(block)
        else np.asarray(block, dtype=np.float64)
        for block in blocks
    ]
    if not arrays:
        raise ValueError("blocks are none: expected one or more")
    for block in arrays:
        if block.ndim != 2 or not block.shape[0] or not block.shape[1]:
            raise ValueError(f"a block has shape {block.shape}: expected (n, F), n and F 1 or more")
        if not np.isfinite(block.data if sparse.issparse(block) else block).all():
            raise ValueError("a block holds NaN or infinity: expected finite numbers")
    return arrays


# Permutation tests: the answers of each pair are swapped at random until enough is known.


MOST_SWAPS = 50_000_000  # permutations at most: a level that takes more is not reached
_MIN_EXCEEDANCES = 20
"""Permutations at least as large as what was seen, after which no more are drawn."""

_CHUNK = 1 << 14
_PERMUTATION_FACTOR = 2


def swaps_needed(alpha: float) -> int:
    """Return how many permutations a rejection takes; ``ValueError`` for alpha outside (0, 1)."""
    return math.ceil(_PERMUTATION_FACTOR / check_open_unit("alpha", alpha))


def swap_test(grams: Any, *, alpha: float, name: str, seed: int = 0) -> TestResult:
    """Test that pairs may be swapped by the sum of their products, against that of random swaps.

    The p-value is exact: permutations are drawn until 20 of them reach what was seen, of m then
    20/m, or until there are :func:`swaps_needed`, of which k reach it: (k + 1)/(m + 1). ``grams``:
    sequence of float64 (n_k, n_k), as :func:`agreement_test` takes them. Raises ``ValueError`` if
    there is no such array, one is not square or not finite, alpha is outside (0, 1) or takes more
    permutations than ``MOST_SWAPS``.

    Source: Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 78 (1991) 301-304.
    """
    alpha, blocks = check_open_unit("alpha", alpha), _check_grams(grams)
    most = swaps_needed(alpha)
    if most > MOST_SWAPS:
        raise ValueError(
            f"alpha is {alpha:g}: that takes {most:,} permutations, above {MOST_SWAPS:,}"
        )
    lower = [np.tril(gram, -1).astype(np.float32) for gram in blocks]
    seen = float(sum(float(np.tril(gram, -1).sum()) for gram in blocks))
    # What differs by rounding alone is a tie, and a tie reaches what was seen.
    slack = 1e-4 * math.sqrt(sum(float((gram.astype(float) ** 2).sum()) for gram in lower)) + 1e-12
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 1, 0]))
    reached = drawn = 0
    size = 256
    while drawn < most and reached < _MIN_EXCEEDANCES:
        size = min(size, most - drawn)
        totals = np.zeros(size)
        for gram in lower:
            n = len(gram)
            drawn_bytes = np.frombuffer(rng.bytes(size * -(-n // 8)), np.uint8).reshape(size, -1)
            signs = np.unpackbits(drawn_bytes, axis=1, count=n).astype(np.float32)
            signs *= 2.0
            signs -= 1.0
            totals += np.einsum("ij,ij->i", signs @ gram, signs)
        hits = np.flatnonzero(totals >= seen - slack)
        if reached + len(hits) >= _MIN_EXCEEDANCES:
            drawn += int(hits[_MIN_EXCEEDANCES - reached - 1]) + 1
            reached = _MIN_EXCEEDANCES
        else:
            reached, drawn = reached + len(hits), drawn + size
        size = min(4 * size, _CHUNK)
    pvalue = reached / drawn if reached == _MIN_EXCEEDANCES else (reached + 1) / (drawn + 1)
    return TestResult(
        name=name,
        statistic=seen,
        log_pvalue=math.log(pvalue),
        alpha=alpha,
        n=sum(map(len, blocks)),
        method=f"exact p-value of {drawn:,} random swaps of whole answers",
        deviation="any that two pairs show alike",
    )

"""Tails of sums: never below the exact ones, close to them where counts are large, deep."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from simverify.stats.tails.sum_tails import log_sum_bound, log_sum_sf, sum_deficit


def tail(values, rows, totals, threshold):
    """Log of P(sum >= threshold), for values that are finite where their rows are positive."""
    most = np.where(rows > 0, values, -math.inf).max(axis=1)
    return log_sum_sf(values, rows, totals, float(totals @ most) - threshold)


def exact_law(values, rows, totals):
    """Sums and their probabilities over all outcomes, largest first, with cumulated mass."""
    sums, masses = np.zeros(1), np.ones(1)
    for value, row, total in zip(values, rows, totals, strict=True):
        heads = itertools.product(range(total + 1), repeat=len(row) - 1)
        counts = np.array([(*h, total - sum(h)) for h in heads if sum(h) <= total])
        mass = stats.multinomial.pmf(counts, total, row)
        sums = (sums[:, None] + counts @ value).ravel()
        masses = (masses[:, None] * mass).ravel()
    order = np.argsort(-sums)
    return sums[order], np.cumsum(masses[order])


def instances(repeats):
    """Log-likelihood ratios of one or two rows of two or three tokens."""
    rng = np.random.default_rng(71)
    for _ in range(repeats):
        contexts, vocab = rng.integers(1, 3), rng.integers(2, 4)
        rows = rng.dirichlet(np.full(vocab, rng.choice([0.3, 1.0, 3.0])), contexts)
        faults = rng.dirichlet(np.ones(vocab), contexts)
        strength = rng.choice([1.0, 0.3, 0.03])
        most = 40 if contexts * vocab < 6 else 12
        totals = rng.integers(3, most, contexts)
        yield np.log(1 - strength + strength * faults / rows), rows, totals


def test_never_below_the_exact_tail():
    """Lattices, tiny probabilities and all: every threshold with a tail below 1/10."""
    checked, without_lattice = 0, 0
    for values, rows, totals in instances(300):
        sums, tails = exact_law(values, rows, totals)
        for level in (1e-2, 1e-4, 1e-6, 1e-9):
            at = min(int(np.searchsorted(tails, level)), sums.size - 1)
            # All outcomes that rounding puts a hair apart belong to the event.
            last = int(np.searchsorted(-sums, -sums[at] + 1e-9 * abs(sums[at]), side="right"))
            if tails[last - 1] > 0.1:
                continue
            bound = math.exp(tail(values, rows, totals, float(sums[at])))
            assert bound >= tails[last - 1] * (1 - 1e-9)
            checked += 1
            without_lattice += bound * 0.8 < tails[last - 1]
    assert checked > 900
    # Negative control: a formula a fifth lower is below the exact tail many times.
    assert without_lattice > 50


@pytest.mark.parametrize("log_tail", [-20, -690, -6900])
def test_binomial_tails_at_any_depth(log_tail):
    """A row of two tokens is a binomial: mpmath's sum, at 1e-9, 1e-300 and 1e-3000."""
    n, p, value = 40_000, 0.3, 1.0
    counts = np.arange(int(n * p), n + 1)
    k = int(counts[np.searchsorted(-stats.binom.logsf(counts - 1, n, p), min(-log_tail, 600))])
    if log_tail < -600:
        k = int(n * (p + math.sqrt(-log_tail * p * (1 - p) * 2 / n)))
    with mpmath.workdps(30):
        first = mpmath.binomial(n, k) * mpmath.mpf(p) ** k * (1 - mpmath.mpf(p)) ** (n - k)
        total, term = mpmath.mpf(0), first
        for j in range(k, min(n, k + 4000)):
            total += term
            term *= mpmath.mpf(n - j) / (j + 1) * p / (1 - p)
        exact = float(mpmath.log(total))
    got = tail(np.array([[0.0, value]]), np.array([[1 - p, p]]), np.array([n]), k * value)
    assert math.isfinite(got)
    assert got == pytest.approx(exact, abs=2e-3)


def test_close_to_a_smooth_law():
    """A large alphabet in many contexts: normal to a percent, and what a lattice could add."""
    rng = np.random.default_rng(72)
    rows = rng.dirichlet(np.full(64, 5.0), 64)
    values, totals = 1e-2 * rng.standard_normal((64, 64)), np.full(64, 10**4)
    means = (rows * values).sum(axis=1)
    variance = float(totals @ ((rows * values**2).sum(axis=1) - means**2))
    deviation = math.sqrt(variance)
    widest = float(np.ptp(values, axis=1).max())
    for z in (2.0, 5.0):
        got = tail(values, rows, totals, float(totals @ means) + z * deviation)
        lattice = z * widest / (2 * deviation)
        assert -0.01 < got - stats.norm.logsf(z) < 0.01 + lattice < 0.04


def test_edges():
    rows, totals = np.array([[0.25, 0.25, 0.5]]), np.array([10])
    values = np.array([[1.0, 1.0, 0.0]])
    assert log_sum_sf(values, rows, totals, 0.0) == pytest.approx(10 * math.log(0.5))
    assert log_sum_sf(values, rows, totals, -0.1) == -math.inf
    assert log_sum_sf(values, rows, totals, 5.0) == 0.0
    # A token that makes the sum -inf leaves the rest of the mass.
    cut = np.array([[-math.inf, 1.0, 0.0]])
    assert log_sum_sf(cut, rows, totals, 10.0) == pytest.approx(10 * math.log(0.75))
    assert log_sum_sf(cut, rows, totals, 0.0) == pytest.approx(10 * math.log(0.25))
    # No token of the row leaves the sum finite.
    never = np.array([[-math.inf, -math.inf, -math.inf]])
    assert log_sum_sf(never, rows, totals, 5.0) == -math.inf
    # Values that never differ: no deviation is possible.
    assert log_sum_sf(np.ones((1, 3)), rows, totals, 0.0) == 0.0


def test_a_certain_sum_has_tail_one_whatever_its_rounding():
    """One-hot rows: every token lowers the ratio by a known amount, and that is no surprise."""
    rng = np.random.default_rng(76)
    rows = np.tile([1.0, 0.0], (4, 1))
    for _ in range(200):
        totals, lows = rng.integers(1, 400, 4), np.log(rng.uniform(0.1, 1.0, 4))
        values = np.column_stack([lows, np.full(4, np.log(2.0))])
        seen = np.column_stack([totals, np.zeros(4, dtype=int)])
        assert sum_deficit(values, rows, seen) == 0.0
        assert log_sum_sf(values, rows, totals, 0.0) == 0.0


@pytest.mark.parametrize("scale", [1.0, 1e-8, 2.0**-52, 1e-300])
def test_tails_do_not_depend_on_the_scale_of_the_values(scale):
    """Values that differ by ulps are a coarse lattice, and have the tails of one."""
    rows, totals = np.array([[0.2, 0.3, 0.5]]), np.array([12])
    steps = np.array([[0.0, 1.0, 3.0]])
    level = 1.0 if scale > 1e-20 else 0.0
    values = level + scale * steps
    sums, tails = exact_law(steps, rows, totals)
    deficits = sum_deficit(values, rows, np.array([[4, 4, 4]]))
    assert deficits == pytest.approx(scale * (36 - 16), rel=1e-6)
    for at in range(0, sums.size, 7):
        lacked = scale * (36.0 - sums[at])
        last = int(np.searchsorted(-sums, -sums[at] + 1e-9, side="right"))
        got = log_sum_sf(values, rows, totals, lacked)
        assert got == pytest.approx(log_sum_sf(steps, rows, totals, 36.0 - sums[at]), abs=1e-5)
        assert got >= math.log(tails[last - 1]) - 1e-9 or tails[last - 1] > 0.1


def test_values_equal_but_for_an_ulp_beside_one_far_below():
    """What tokens of the constant part add by rounding decides nothing about the rest."""
    rng = np.random.default_rng(77)
    rows = np.array([[0.5, 0.3, 0.15, 0.05]])
    for _ in range(100):
        base = rng.uniform(-1.0, 1.0)
        values = np.array([[base, np.nextafter(base, 2), np.nextafter(base, -2), base - 2.0]])
        counts = rng.multinomial(200, rows[0])[None]
        found = log_sum_sf(values, rows, np.array([200]), sum_deficit(values, rows, counts))
        low = stats.binom.logcdf(counts[0, 3], 200, 0.05)
        assert found >= low - 1e-9 or low > math.log(0.1)


def test_ball_bound_covers_the_worst_row_within_it():
    """Moving mass from the least to the greatest value is the worst that a ball allows."""
    row, ball, n = np.array([[0.5, 0.3, 0.2]]), 0.02, 2000
    values, totals = np.array([[-0.2, 0.1, 0.4]]), np.array([n])
    worst = row + np.array([[-ball, 0.0, ball]])
    for z in (2.0, 4.0, 6.0):
        mean = float((worst @ values.T)[0, 0])
        variance = float((worst @ values.T**2)[0, 0]) - mean**2
        threshold = n * mean + z * math.sqrt(n * variance)
        bound = log_sum_bound(values, row, totals, threshold, ball=ball)
        assert bound >= tail(values, worst, totals, threshold)
        # Without the ball the bound would be false.
        assert tail(values, row, totals, threshold) < stats.norm.logsf(z)


def test_ball_reaches_tokens_of_probability_zero():
    """Mass may move to a token that the declared row excludes."""
    row, ball, n = np.array([[0.6, 0.4, 0.0]]), 0.02, 2000
    values, totals = np.array([[-0.1, 0.1, 2.0]]), np.array([n])
    worst = np.array([[0.58, 0.4, 0.02]])
    threshold = n * float((worst @ values.T)[0, 0])
    assert log_sum_bound(values, row, totals, threshold, ball=ball) > -1.0
    assert log_sum_bound(values, row, totals, threshold, ball=ball / 4) < -5.0


def test_ball_bound_of_a_row_whose_tokens_are_all_excluded():
    """Only the mass that the ball lets move can make the sum finite."""
    row, values = np.array([[1.0, 0.0]]), np.array([[-math.inf, 2.0]])
    bound = log_sum_bound(values, row, np.array([10]), 20.0, ball=0.01)
    assert bound == pytest.approx(10 * math.log(0.01), rel=1e-6)

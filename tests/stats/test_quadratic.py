"""Sums of squares over swaps: their size by enumeration, power, what is promised, and the edges."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from scipy import stats as scipy_stats
from support.false_alarms import ALPHA
from support.levels import at_night

from simverify import stats
from simverify.stats import dual_certificate, plug_in_certificate
from simverify.stats.certificates import _tangent_polygon, mean_deviation

# The dual bound: exact noise, rigorous suprema, coverage, and how much it gains.


def test_mean_deviation_and_slope_against_sums():
    rng = np.random.default_rng(94)
    for _ in range(500):
        n = int(rng.integers(1, 60))
        p = rng.choice([0.0, 1.0, rng.random(), rng.integers(0, n + 1) / n])
        true = rng.random()
        off = np.abs(np.arange(n + 1) / n - p)
        height = scipy_stats.binom.pmf(np.arange(n + 1), n, true) @ off
        slope = n * (scipy_stats.binom.pmf(np.arange(n), n - 1, true) @ np.diff(off))
        got = mean_deviation(np.array([true]), np.array([p]), np.array([float(n)]), above=true >= p)
        assert got[0][0] == pytest.approx(height, abs=1e-12)
        assert got[1][0] == pytest.approx(slope, abs=1e-11)


@pytest.mark.parametrize("n", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("p", [0.0, 1e-9, 1e-4, 0.02, 0.5, 1.0])
def test_suprema_are_bounded_and_sharp(p, n):
    """Every deviation of a fine grid lies below the polygon's maximum, and nearly reaches it."""
    scale = max(np.sqrt(p * (1 - p) / n), 1 / n)
    grid = np.concatenate([np.linspace(-8, 8, 4001) * scale, np.linspace(-p, 1 - p, 2001), [0.0]])
    grid = grid[(grid >= -p) & (grid <= 1 - p)]
    points, heights = _tangent_polygon(np.array([p]), np.array([float(n)]))
    count, noise = np.array([float(n)]), np.empty_like(grid)
    for above in (True, False):
        side = (grid >= 0) == above
        noise[side], _ = mean_deviation(p + grid[side], np.array([p]), count, above=above)
    for multiplier in (1.0, 1.01, 1.2, 2.0, 10.0):
        bound = float((points - multiplier * heights).max())
        seen = float((np.abs(grid) - multiplier * noise).max())
        assert bound >= seen - 1e-14
        assert bound - seen <= 0.003 * multiplier * scale + 1e-12


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("vocab", "tokens", "tilt"),
    at_night(
        [(3, 60, 0.5), (40, 300, 0.1), (40, 300, 0.0), (150, 500, 0.3)],
        but=[(3, 60, 0.5), (40, 300, 0.1), (40, 300, 0.0)],
    ),
)
@pytest.mark.thorough
def test_coverage(vocab, tokens, tilt):
    """Two contexts of a wrong law; the plug-in value less its mean noise is the control."""
    rng, repeats, delta = np.random.default_rng([95, vocab]), 250, 0.1
    rows = rng.dirichlet(np.full(vocab, 0.7), 2)
    emitted = rows * np.exp(tilt * rng.standard_normal(rows.shape))
    emitted /= emitted.sum(axis=1, keepdims=True)
    totals = np.array([tokens, 2 * tokens])
    truth = float(totals @ np.abs(emitted - rows).sum(axis=1)) / 2 / totals.sum()
    misses = naive = 0
    for _ in range(repeats):
        counts = np.stack([rng.multinomial(n, e) for n, e in zip(totals, emitted, strict=True)])
        bound = dual_certificate(counts, rows, delta=delta).bound
        plug_in = plug_in_certificate(counts, rows, delta=delta).bound
        assert bound <= plug_in + 1e-9
        misses += bound < truth
        naive += plug_in - 1.2 * (plug_in - truth) < truth
    allowed = scipy_stats.binom.isf(ALPHA, repeats, delta)
    assert misses <= allowed < naive


@pytest.mark.distribution
def test_nearly_half_the_plug_in_bound_where_noise_prevails():
    rng = np.random.default_rng(96)
    row = rng.dirichlet(np.full(4096, 0.5))[None]
    counts = rng.multinomial(10**6, row[0])[None]
    plug_in, dual = plug_in_certificate(counts, row), dual_certificate(counts, row)
    assert dual.bound < 0.55 * plug_in.bound
    # Negative control: a run that deviates earns no such bound.
    wrong = row * np.where(np.arange(4096) % 2, 1.1, 0.9)
    wrong /= wrong.sum()
    tv = np.abs(wrong - row).sum() / 2
    assert dual_certificate(rng.multinomial(10**6, wrong[0])[None], row).bound >= tv > dual.bound


def test_errors_and_edges():
    assert dual_certificate([[1, 0]], [[0.5, 0.5]]).bound == 1.0
    one_hot = dual_certificate([[10**6, 0, 0], [0, 0, 0]], [[1.0, 0, 0], [0.2, 0.4, 0.4]])
    assert one_hot.bound == pytest.approx(np.sqrt(np.log(1000) / 2e6), rel=1e-6)
    with pytest.raises(ValueError, match="all 0"):
        dual_certificate([[0, 0]], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="row 0 sums to"):
        dual_certificate([[1, 0]], [[0.5, 0.4]])
    with pytest.raises(ValueError, match="delta is 1"):
        dual_certificate([[1, 0]], [[0.5, 0.5]], delta=1)


RNG = np.random.default_rng(4)


def two_samples(n, law, other, seed):
    """Differences of counts of two samples, each over the root of its cell's count."""
    rng = np.random.default_rng(seed)
    values = np.zeros((n, len(law)))
    for side, own in ((1.0, law), (-1.0, other)):
        np.add.at(values, (np.arange(n), rng.choice(len(law), n, p=own)), side)
    return values / np.sqrt(np.maximum(np.abs(values).sum(axis=0), 1.0))


@pytest.mark.parametrize("kind", ["dense", "counts", "one column", "two blocks"])
def test_the_tail_holds_over_all_swaps(kind):
    d = {
        "dense": RNG.normal(size=(10, 4)),
        "counts": two_samples(10, np.ones(4) / 4, np.ones(4) / 4, 0),
        "one column": np.ones((10, 1)),
        "two blocks": np.repeat([1.0, 0.5], [6, 4])[:, None],
    }[kind]
    found = []
    for signs in itertools.product([1.0, -1.0], repeat=10):
        own = np.array(signs)[:, None] * d
        blocks = [own[:6], own[6:]] if kind == "two blocks" else [own]
        found.append(stats.quadratic_test(blocks, alpha=0.1, name="x").pvalue)
    found = np.array(found)
    # A bound at every level, and no empty one: it comes down where the sum is largest.
    assert all((found <= p + 1e-12).mean() <= p + 1e-12 for p in np.unique(found))
    assert found.min() < 0.35


def test_the_bound_of_one_column_is_that_of_one_squared_normal():
    n, ahead = 400, 290
    d = np.repeat([1.0, -1.0], [ahead, n - ahead])[:, None]
    test = stats.quadratic_test([d], alpha=1e-6, name="x")
    z = (2 * ahead - n) / math.sqrt(n)
    assert test.statistic == pytest.approx((z * z - 1.0) / math.sqrt(2.0))
    assert test.log_pvalue == pytest.approx(-0.5 * z * z + 0.5 + math.log(z), rel=1e-6)


def test_sparse_and_dense_blocks_are_alike():
    d = two_samples(60, np.ones(30) / 30, np.ones(30) / 30, 1)
    dense, thin = (stats.quadratic_test([own], alpha=0.1, name="x")
                   for own in (d, sparse.csr_array(d)))  # fmt: skip
    assert dense.statistic == pytest.approx(thin.statistic, rel=1e-9)
    assert dense.log_pvalue == pytest.approx(thin.log_pvalue, rel=1e-9)
    wide = stats.quadratic_spread([d[:20]])
    assert wide.sum() == pytest.approx((d[:20] ** 2).sum())


@pytest.mark.distribution
def test_laws_that_agree_pass_and_others_fail():
    even = np.ones(40) / 40
    tilted = even * np.where(np.arange(40) % 2, 1.3, 0.7)  # TV .15
    passed, failed = (
        stats.quadratic_test([two_samples(3000, even, law, 5)], alpha=ALPHA, name="x")
        for law in (even, tilted)
    )
    assert not passed.rejected
    assert failed.rejected


@pytest.mark.distribution
def test_what_is_promised_is_found():
    """An even deviation of as much as is promised is found nine times of ten."""
    alpha, n, cells = 1e-6, 1500, 40
    even = np.ones(cells) / cells
    due = stats.needed_excess(alpha, stats.quadratic_spread([two_samples(n, even, even, 0)]))
    tv = math.sqrt(due / (2.0 * n - cells))
    tilted = even * np.where(np.arange(cells) % 2, 1.0 + 2.0 * tv, 1.0 - 2.0 * tv)
    found = sum(
        stats.quadratic_test([two_samples(n, even, tilted, seed)], alpha=alpha, name="x").rejected
        for seed in range(40)
    )
    assert 0.05 < tv < 0.2
    assert found >= 26  # of 40 at .9: fewer come with a chance below 1e-5


def test_what_no_pair_differs_in_tells_nothing():
    still = stats.quadratic_test([np.zeros((5, 2))], alpha=1e-3, name="x")
    assert (still.log_pvalue, still.statistic, still.df) == (0.0, 0.0, 0)
    assert stats.needed_excess(0.1, stats.quadratic_spread([np.zeros((5, 2))])) == math.inf
    huge = stats.quadratic_test([np.full((80, 1), 1e100)], alpha=1e-3, name="x")
    assert huge.rejected


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.quadratic_test([], alpha=0.1, name="x"), "blocks are none"),
        (
            lambda: stats.quadratic_test([np.ones(3)], alpha=0.1, name="x"),
            r"shape \(3,\)",
        ),
        (lambda: stats.quadratic_test([np.ones((2, 0))], alpha=0.1, name="x"), "shape"),
        (
            lambda: stats.quadratic_test([[[np.nan]]], alpha=0.1, name="x"),
            "NaN or infinity",
        ),
        (lambda: stats.quadratic_test([[[1.0]]], alpha=1.0, name="x"), "alpha is 1"),
        (lambda: stats.needed_excess(0.0, np.ones(3)), "alpha is 0"),
    ],
)
def test_bad_input_costs_a_line(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)

"""The dual bound: exact noise, rigorous suprema, coverage, and how much it gains."""

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA
from support.levels import at_night

from simverify.stats import dual_certificate, plug_in_certificate
from simverify.stats.certificates.dual import _polygon, mean_deviation


def test_mean_deviation_and_slope_against_sums():
    rng = np.random.default_rng(94)
    for _ in range(500):
        n = int(rng.integers(1, 60))
        p = rng.choice([0.0, 1.0, rng.random(), rng.integers(0, n + 1) / n])
        true = rng.random()
        off = np.abs(np.arange(n + 1) / n - p)
        height = stats.binom.pmf(np.arange(n + 1), n, true) @ off
        slope = n * (stats.binom.pmf(np.arange(n), n - 1, true) @ np.diff(off))
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
    points, heights = _polygon(np.array([p]), np.array([float(n)]))
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
    allowed = stats.binom.isf(ALPHA, repeats, delta)
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

"""Swaps of pairs: every size by enumeration of all swaps, power beside it, and the edges."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from support.false_alarms import ALPHA

from simverify import stats
from simverify.stats import Certificate, best_certificate, monotone_certificate, plug_in_certificate

# Certificates hold as often as they say, and fail where their assumption does.


DELTA = 0.1


def two_level_histogram(rng, n, tv, bins=64):
    """PITs of density 1 + 2 tv below 1/2 and 1 - 2 tv above: monotone P'/P of that TV."""
    density = np.where(np.arange(bins) < bins // 2, 1 + 2 * tv, 1 - 2 * tv)
    return rng.multinomial(n, density / bins)


@pytest.mark.distribution
def test_plug_in_covers_with_adaptive_contexts():
    """A walk by wrong rows: where it goes depends on what it emitted."""
    rng = np.random.default_rng(51)
    target = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    emitted = np.array([[0.4, 0.3, 0.3], [0.3, 0.5, 0.2], [0.3, 0.1, 0.6]])
    cdf, steps = np.cumsum(emitted, axis=1)[:, :2], 1000
    walkers = 600
    counts = np.zeros((walkers, 3, 3), dtype=int)
    state = np.zeros(walkers, dtype=int)
    for _ in range(steps):
        token = (rng.random(walkers)[:, None] >= cdf[state]).sum(axis=1)
        np.add.at(counts, (np.arange(walkers), state, token), 1)
        state = token
    tv = np.abs(emitted - target).sum(axis=1) / 2
    bounds = [plug_in_certificate(table, target, delta=DELTA).bound for table in counts]
    truth = (counts.sum(axis=2) @ tv) / steps
    misses = int((np.array(bounds) < truth).sum())
    assert misses <= scipy_stats.binom.isf(ALPHA, walkers, DELTA)
    # Negative control: half the bound is no bound.
    assert (np.array(bounds) / 2 < truth).all()


def test_plug_in_value():
    certificate = plug_in_certificate(np.array([[30, 70], [40, 60]]), [[0.5, 0.5], [0.4, 0.6]])
    assert certificate.bound == pytest.approx(0.1 + math.sqrt(math.log(1000) / 400))
    assert certificate.delta == 1e-3
    assert "context" in certificate.assumption


@pytest.mark.distribution
def test_plug_in_under_the_null_at_size():
    """docs/explanation/statistics.md: TV(phat, p) is .009 at V = 64, N = 1e5."""
    row = np.full((1, 64), 1 / 64)
    counts = np.random.default_rng(52).multinomial(10**5, row[0])[None, :]
    bound = plug_in_certificate(counts, row).bound
    assert bound - math.sqrt(math.log(1000) / 2e5) == pytest.approx(0.010, abs=0.002)


def test_bounds_are_at_most_one():
    assert plug_in_certificate(np.array([[1, 0]]), [[0.5, 0.5]]).bound == 1.0
    assert monotone_certificate(np.array([3, 0])).bound == 1.0


@pytest.mark.distribution
@pytest.mark.parametrize("tv", [0.0, 0.05, 0.3])
def test_monotone_covers(tv):
    rng = np.random.default_rng(53)
    bounds = [
        monotone_certificate(two_level_histogram(rng, 2000, tv), delta=DELTA).bound
        for _ in range(300)
    ]
    assert sum(b < tv for b in bounds) <= scipy_stats.binom.isf(ALPHA, 300, DELTA)
    assert np.mean(bounds) < 2 * tv + 0.17


@pytest.mark.distribution
def test_monotone_needs_its_assumption():
    """Two contexts that deviate in opposite directions cancel: the bound is false."""
    rng = np.random.default_rng(54)
    mixed = two_level_histogram(rng, 10**5, 0.3) + two_level_histogram(rng, 10**5, -0.3)
    certificate = monotone_certificate(mixed)
    assert certificate.bound < 0.3
    assert "same direction" in certificate.assumption


def test_monotone_value_counts_the_bin():
    certificate = monotone_certificate(np.array([30, 20, 25, 25]), delta=0.01)
    assert certificate.bound == pytest.approx(2 * (0.05 + 0.25 + math.sqrt(math.log(200) / 200)))


def test_the_best_bound_pays_for_all():
    first = Certificate(0.2, 0.004, "a", "none")
    second = Certificate(0.1, 0.006, "b", "monotone")
    best = best_certificate(first, second)
    assert (best.bound, best.method, best.assumption) == (0.1, "b", "monotone")
    assert best.delta == pytest.approx(0.01)
    assert best_certificate(first) == first


@pytest.mark.distribution
def test_choosing_the_best_needs_the_split():
    """Many bounds that each fail at their delta: the smallest fails at the sum."""
    rng, repeats, count, truth = np.random.default_rng(56), 2000, 5, 0.5
    # Bounds that fall below the truth with probability delta each, independently.
    fails = {
        delta: sum(
            best_certificate(
                *(Certificate(b, delta, "x", "none") for b in truth + rng.random(count) - delta)
            ).bound
            < truth
            for _ in range(repeats)
        )
        for delta in (DELTA / count, DELTA)
    }
    allowed = scipy_stats.binom.isf(ALPHA, repeats, DELTA)
    assert fails[DELTA / count] <= allowed < fails[DELTA]


def test_errors_of_the_best():
    with pytest.raises(ValueError, match="expected one quantity"):
        best_certificate()
    with pytest.raises(ValueError, match="sum of deltas is 1"):
        best_certificate(Certificate(0.1, 0.5, "a", ""), Certificate(0.1, 0.5, "a", ""))


def test_errors():
    with pytest.raises(ValueError, match="all 0"):
        plug_in_certificate(np.array([[0, 0]]), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="row 0 sums to"):
        plug_in_certificate(np.array([[1, 0]]), [[0.5, 0.4]])
    with pytest.raises(ValueError, match="delta is 0"):
        plug_in_certificate(np.array([[1, 0]]), [[0.5, 0.5]], delta=0.0)
    with pytest.raises(ValueError, match="empty"):
        monotone_certificate(np.array([0, 0]))
    with pytest.raises(ValueError, match="delta is 2"):
        monotone_certificate(np.array([1, 2]), delta=2.0)


RNG = np.random.default_rng(3)


def swaps(n):
    return [np.array(signs) for signs in itertools.product([1.0, -1.0], repeat=n)]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
def test_an_evalue_of_directions_is_one_on_average_over_all_swaps(scale):
    d = scale * RNG.normal(size=(9, 3)) * [1.0, 0.0, 5.0]
    mean = np.mean([np.exp(stats.direction_evalues(s[:, None] * d)) for s in swaps(9)], axis=0)
    assert np.allclose(mean, 1.0, rtol=1e-12)


def test_an_evalue_of_agreement_is_one_on_average_over_all_swaps():
    d = RNG.normal(size=(8, 2))

    def evalue(signs):
        own = signs[:, None] * d
        grams = [own[:5] @ own[:5].T, own[5:] @ own[5:].T]
        return math.exp(stats.agreement_test(grams, alpha=0.1, name="x").statistic)

    assert np.isclose(np.mean([evalue(s) for s in swaps(8)]), 1.0, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_the_size_of_sign_tests_over_all_swaps(alpha):
    d = np.array([[1, 1, 0], [1, -1, 0], [1, 0, 0], [-1, 1, 1], [1, 1, 0], [1, 1, -1], [1, 0, 0],
                  [1, 0, 1], [1, 1, 1]])  # fmt: skip

    def rejected(signs):
        own = signs[:, None] * d
        sides = [(own == side).sum(axis=0) for side in (1, -1)]
        return stats.discordant_test(*sides, n=9, alpha=alpha, name="x").rejected

    size = np.mean([rejected(s) for s in swaps(9)])
    assert 0.0 < size <= alpha  # it can reject, and not more often than it may


def test_things_that_too_few_have_cost_nothing():
    rare = np.ones(1000, np.int64)
    alone = stats.discordant_test([30], [2], n=40, alpha=1e-3, name="x")
    among = stats.discordant_test([30, *rare], [2, *(0 * rare)], n=40, alpha=1e-3, name="x")
    assert among.log_pvalue == alone.log_pvalue
    assert alone.rejected
    assert not stats.discordant_test(rare, 0 * rare, n=40, alpha=1e-3, name="x").rejected
    none = stats.discordant_test([0], [0], n=40, alpha=1e-3, name="x")
    assert none.log_pvalue == 0.0


def test_permutations_are_those_of_all_swaps():
    d = RNG.normal(size=(7, 2)) + 0.4
    totals = [np.tril((s[:, None] * d) @ (s[:, None] * d).T, -1).sum() for s in swaps(7)]
    exact = np.mean(np.array(totals) >= np.tril(d @ d.T, -1).sum() - 1e-9)
    found = stats.swap_test([d @ d.T], alpha=1e-4, name="x")
    assert 0.01 < exact < 0.5
    drawn = float(found.method.split()[3].replace(",", ""))
    error = 6.0 / math.sqrt(20.0) if drawn < 4e4 else 6.0 * math.sqrt(exact / drawn)
    assert abs(found.pvalue / exact - 1.0) < error


def test_permutations_end_where_nothing_is_off_and_go_on_where_something_is():
    d = RNG.normal(size=(60, 4))
    still = stats.swap_test([d @ d.T], alpha=1e-4, name="x")
    off = stats.swap_test([(d + 1.0) @ (d + 1.0).T], alpha=1e-4, name="x")
    assert not still.rejected
    assert off.rejected
    assert off.method.startswith("exact p-value of 20,000 random swaps")
    again = stats.swap_test([d @ d.T], alpha=1e-4, name="x")
    assert again == still


@pytest.mark.distribution
def test_pairs_that_may_be_swapped_pass_and_others_fail():
    d = RNG.normal(size=(400, 6))
    for shift, rejects in ((0.0, False), (0.8, True)):
        own = d + shift
        found = [
            stats.directions_test(own, alpha=ALPHA / 2, name="x"),
            stats.agreement_test([own @ own.T], alpha=ALPHA / 2, name="x"),
        ]
        assert [test.rejected for test in found] == [rejects, rejects]
        assert all(math.isfinite(test.log_pvalue) for test in found)


@pytest.mark.distribution
def test_what_is_promised_is_found():
    alpha, n = 1e-6, 900
    shift = stats.needed_shift(alpha, 1, float(n)) / n
    found = 0
    for seed in range(40):
        signs = np.random.default_rng(seed).choice([1.0, -1.0], size=(n, 1))
        biased = np.where(np.random.default_rng(99 + seed).random((n, 1)) < shift, 1.0, signs)
        found += stats.directions_test(biased, alpha=alpha, name="x").rejected
    assert found >= 26  # of 40 at .9: fewer come with a chance below 1e-5


def test_what_no_pair_differs_in_tells_nothing():
    still = np.zeros((5, 2))
    for test in (
        stats.directions_test(still, alpha=1e-3, name="x"),
        stats.agreement_test([still @ still.T], alpha=1e-3, name="x"),
        stats.swap_test([still @ still.T], alpha=1e-3, name="x"),
    ):
        assert test.log_pvalue == 0.0
    one = stats.directions_test([[1.0]], alpha=1e-3, name="x")
    assert one.log_pvalue == 0.0
    assert one.min_detectable == math.inf
    huge = stats.directions_test(np.full((80, 1), 1e300), alpha=1e-3, name="x")
    assert huge.rejected


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.direction_evalues(np.ones(3)), r"shape \(3,\): expected"),
        (lambda: stats.direction_evalues(np.ones((0, 2))), "expected"),
        (lambda: stats.direction_evalues([[np.nan]]), "NaN or infinity: expected"),
        (lambda: stats.directions_test([[1.0]], alpha=0.0, name="x"), "alpha is 0"),
        (
            lambda: stats.directions_test([[1.0]], alpha=0.1, name="x", per_pair=0.0),
            "per_pair",
        ),
        (lambda: stats.needed_shift(0.1, 0, 1.0), "directions is 0"),
        (lambda: stats.needed_shift(0.1, 1, -1.0), "spread is -1"),
        (lambda: stats.agreement_test([], alpha=0.1, name="x"), "grams are none"),
        (lambda: stats.agreement_test([np.ones((2, 3))], alpha=0.1, name="x"), "shape"),
        (lambda: stats.swap_test([[[np.inf]]], alpha=0.1, name="x"), "NaN or infinity"),
        (lambda: stats.swap_test([[[1.0]]], alpha=1e-12, name="x"), "permutations, above"),
        (lambda: stats.swaps_needed(1.0), "alpha is 1"),
        (lambda: stats.discordant_test([1], [1, 2], n=3, alpha=0.1, name="x"), "shape"),
        (lambda: stats.discordant_test([-1], [1], n=3, alpha=0.1, name="x"), "first"),
    ],
)
def test_bad_input_costs_a_line(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)

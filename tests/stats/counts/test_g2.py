"""The G2 test: exact size by enumeration, power at the planned deviation, edges."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import signal, stats
from statsmodels.stats.power import GofChisquarePower
from support.false_alarms import ALPHA

from simverify.stats import g2_min_detectable, g2_samples, g2_test, transition_g2


def log_pvalue(counts, rows):
    return g2_test(transition_g2(np.array(counts), np.array(rows)), alpha=0.01).log_pvalue


def critical_value(null, alpha):
    """The statistic at which the claimed p-value crosses alpha."""
    low, high = 0.0, 1000.0
    for _ in range(40):
        middle = (low + high) / 2
        rejected = g2_test(replace(null, statistic=middle), alpha=alpha).rejected
        low, high = (low, middle) if rejected else (middle, high)
    return high


def test_size_of_a_sum_of_rows_by_convolution(multinomial_g2):
    """The exact law of the summed G2 of ten rows that barely pass the pooling rule."""
    rows = [(1 / 3, 1 / 3, 1 / 3)] * 3 + [(0.2, 0.3, 0.5)] * 4 + [(0.5, 0.5)] * 3
    totals = [30] * 3 + [50] * 4 + [20] * 3
    step = 2e-3
    law = np.ones(1)
    for n, row in zip(totals, rows, strict=True):
        values, weights = multinomial_g2(n, row)
        parts = np.bincount(np.rint(values / step).astype(int), weights)
        law = signal.fftconvolve(law, parts)[:60_000]  # off by 1e-16, far below the tails asked
    counts = np.zeros((10, 3), dtype=int)
    table = np.zeros((10, 3))
    for i, (n, row) in enumerate(zip(totals, rows, strict=True)):
        counts[i, 0] = n
        table[i, : len(row)] = row
    null = transition_g2(counts, table)
    assert null.df == 17
    tails = np.cumsum(law[::-1])[::-1]
    for alpha in (1e-2, 1e-3, 1e-5, 5e-8):
        critical = critical_value(null, alpha)
        beyond = tails[math.ceil(critical / step)]
        assert 0.85 * alpha <= beyond <= 1.07 * alpha


def test_size_of_one_row_by_enumeration(multinomial_g2):
    for n, row in ((60, (1 / 3, 1 / 3, 1 / 3)), (100, (0.1, 0.3, 0.6)), (80, (0.2, 0.2, 0.6))):
        values, weights = multinomial_g2(n, row)
        null = transition_g2(np.array([[n - 2, 1, 1]]), [row])
        for alpha in (1e-2, 1e-3, 1e-5, 5e-8):
            # The law is exact, and the lattice coarse: the next atom is up to half of alpha.
            size = weights[values > critical_value(null, alpha)].sum()
            assert 0.5 * alpha <= size <= alpha * (1 + 1e-9)


def walk(rng, rows, steps):
    """Transition counts of ``steps`` walkers that move at once, one table a step."""
    vocab = rows.shape[1]
    cdf = np.cumsum(rows, axis=1)
    state = np.zeros(4000, dtype=int)
    for _ in range(steps):
        token = np.minimum((rng.random(state.size)[:, None] > cdf[state]).sum(axis=1), vocab - 1)
        counts = np.zeros((len(rows), vocab), dtype=int)
        np.add.at(counts, (state, token), 1)
        yield counts
        state = token


@pytest.mark.distribution
@pytest.mark.thorough
def test_size_over_slots_of_a_chain_and_power_against_wrong_rows():
    """Contexts of later slots are earlier slots' tokens: row totals are random and dependent."""
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(8, 0.7), 8)
    repeats, alpha = 1000, 0.01
    rejections, caught = 0, 0
    for _ in range(repeats):
        slots = [transition_g2(c, rows) for c in walk(rng, rows, 3)]
        rejections += g2_test(slots[0] + slots[1] + slots[2], alpha=alpha).rejected
    assert stats.binomtest(rejections, repeats, alpha).pvalue > ALPHA
    # Negative control: every row moved a little towards uniform.
    wrong = 0.8 * rows + 0.2 / 8
    for _ in range(50):
        slots = [transition_g2(c, rows) for c in walk(rng, wrong, 3)]
        caught += g2_test(slots[0] + slots[1] + slots[2], alpha=alpha).rejected
    assert caught == 50


@pytest.mark.distribution
@pytest.mark.parametrize("spread", ["all rows", "four rows"])
def test_power_at_the_planned_deviation(spread):
    """A deviation of the promised mean TV is found nine times in ten, or more often."""
    rng = np.random.default_rng(6)
    contexts, vocab, tokens, alpha = 20, 16, 2000, 1e-6
    rows = np.full((contexts, vocab), 1.0 / vocab)
    null = transition_g2(np.array([rng.multinomial(tokens, row) for row in rows]), rows)
    result = g2_test(null, alpha=alpha)
    signs = np.where(np.arange(vocab) % 2, 1.0, -1.0)
    shift = np.zeros(contexts)
    shift[: contexts if spread == "all rows" else 4] = 1.0
    shift *= 2 * result.min_detectable * contexts / shift.sum()
    other = rows * (1 + shift[:, None] * signs)
    assert (np.abs(other - rows).sum(axis=1) / 2).mean() == pytest.approx(result.min_detectable)
    found = sum(
        g2_test(
            transition_g2(np.array([rng.multinomial(tokens, row) for row in other]), rows),
            alpha=alpha,
        ).rejected
        for _ in range(400)
    )
    assert stats.binom.cdf(found, 400, 0.9) > ALPHA
    assert found > 200


def test_df_one_is_exact(multinomial_g2):
    for n, p in ((20, 0.5), (40, 0.3), (300, 0.04)):
        values, weights = multinomial_g2(n, (p, 1 - p))
        for k in range(n + 1):
            own = values[k]
            exact = weights[values >= own * (1 - 1e-9)].sum()
            assert math.exp(log_pvalue([[k, n - k]], [[p, 1 - p]])) == pytest.approx(
                exact, rel=1e-9
            )


def test_df_one_far_out():
    # At p = 1/2 the two tails are equal.
    both = math.log(2) + stats.binom.logcdf(485_000, 10**6, 0.5)
    assert log_pvalue([[485_000, 515_000]], [[0.5, 0.5]]) == pytest.approx(both, rel=1e-9)
    assert log_pvalue([[0, 10**6]], [[0.5, 0.5]]) == pytest.approx(-(10**6 - 1) * math.log(2))


def test_far_tail_is_finite():
    g2 = transition_g2(np.array([[10**6, 0, 0]]), [[0.2, 0.3, 0.5]])
    result = g2_test(g2, alpha=1e-6, name="slot 1")
    assert result.rejected
    assert result.pvalue == 0.0
    # -G2/2 to leading order.
    assert result.log_pvalue == pytest.approx(10**6 * math.log(0.2), rel=1e-4)
    assert result.name == "slot 1"


def test_result_promises_what_pooling_leaves():
    rng = np.random.default_rng(7)
    rows = rng.dirichlet(np.full(50, 0.5), 3)
    g2 = transition_g2(np.array([rng.multinomial(3000, row) for row in rows]), rows)
    result = g2_test(g2, alpha=1e-6)
    assert g2.unresolved > 0
    assert result.min_detectable == pytest.approx(
        g2_min_detectable(g2.df, g2.n, alpha=1e-6) + g2.unresolved / g2.n
    )
    assert (result.n, result.df, result.deviation) == (9000, g2.df, "mean one-token TV")


def test_planning_against_statsmodels():
    for df, n, alpha, power in (
        (7, 1000, 0.01, 0.9),
        (63, 10**5, 1e-6, 0.8),
        (511, 10**6, 1e-6, 0.9),
    ):
        tv = g2_min_detectable(df, n, alpha=alpha, power=power)
        # Effect size w has noncentrality n w^2: w = 2 TV.
        got = GofChisquarePower().power(2 * tv, n, alpha, n_bins=df + 1)
        assert got == pytest.approx(power, abs=1e-6)
        assert g2_samples(tv, df, alpha=alpha, power=power) in (n, n + 1)


def test_planning_figures():
    # docs/explanation/statistics.md: df 511 gives a noncentrality of 222.
    assert 4 * g2_min_detectable(511, 10**6, alpha=1e-6) ** 2 * 10**6 == pytest.approx(222, abs=0.5)
    assert 4_000_000 < g2_samples(0.01, 36_000, alpha=1e-7) < 5_000_000
    assert g2_min_detectable(10, 3, alpha=1e-6) == math.inf
    assert g2_min_detectable(3, 100, alpha=0.5, power=0.4) == 0.0


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_alpha_errors(alpha):
    g2 = transition_g2(np.array([[30, 70]]), [[0.3, 0.7]])
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        g2_test(g2, alpha=alpha)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        g2_min_detectable(3, 100, alpha=alpha)


def test_errors():
    with pytest.raises(ValueError, match="df 0"):
        g2_test(transition_g2(np.array([[3, 7]]), [[0.3, 0.7]]), alpha=0.01)
    with pytest.raises(ValueError, match="df is 0"):
        g2_min_detectable(0, 100, alpha=0.01)
    with pytest.raises(ValueError, match="tv is 0"):
        g2_samples(0.0, 5, alpha=0.01)


def test_a_power_without_digits_is_refused():
    with pytest.raises(ValueError, match=r"power is 2\.3e-17, expected 1e-09 or more"):
        g2_min_detectable(18, 1000, alpha=2.19e-17, power=2.3e-17)

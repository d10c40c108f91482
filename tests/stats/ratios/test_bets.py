"""Bets on tokens in contexts that never repeat: size, power, balls, bad input."""

import math

import numpy as np
import pytest
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import BetSums, LearnedRates, bet_power, bet_samples, bet_sums, bet_test

V = 12


def emitted(rng, rows):
    """A token of each row."""
    return (np.cumsum(rows, axis=1) < rng.random((len(rows), 1))).sum(axis=1).clip(0, V - 1)


def bets(rows, other, tokens, shares=(1.0, 0.3)):
    ratio = other / rows
    own = ratio[np.arange(len(tokens)), tokens]
    return bet_sums("other", own, ratio.min(axis=1), ratio.max(axis=1), shares=shares)


def tilted(rng, rows, by):
    other = rows * np.exp(by * rng.normal(size=rows.shape))
    return other / other.sum(axis=1, keepdims=True)


@pytest.mark.distribution
def test_a_right_law_is_called_wrong_no_more_often_than_alpha():
    rng = np.random.default_rng(31)

    def simulate(runs):
        found = []
        for _ in range(runs):
            rows = rng.dirichlet(np.full(V, 0.6), 60) * 0.99 + 0.01 / V
            other = tilted(rng, rows, 0.5)
            found.append(bet_test(bets(rows, other, emitted(rng, rows)), alpha=0.5).log_pvalue)
        return found

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
def test_the_other_law_is_found_and_its_own_bet_wins_most():
    rng = np.random.default_rng(32)
    rows = rng.dirichlet(np.full(V, 0.6), 2000) * 0.99 + 0.01 / V
    one, two = tilted(rng, rows, 0.4), tilted(rng, rows, 0.4)
    tokens = emitted(rng, one)
    other = bet_sums(
        "two", (two / rows)[np.arange(2000), tokens], (two / rows).min(axis=1),
        (two / rows).max(axis=1), shares=(1.0,),
    )  # fmt: skip
    sums = bets(rows, one, tokens).beside(other)
    assert bet_test(sums, alpha=ALPHA).rejected
    assert sums.best() == "other, share 1"
    assert not bet_test(sums, alpha=ALPHA, ball=0.2).rejected  # so large a ball may hold it
    assert bet_test(sums, alpha=ALPHA, ball=0.001).rejected


@pytest.mark.distribution
def test_a_law_inside_the_ball_is_not_called_wrong():
    """The worst one: all that the ball has is moved to the token with the largest ratio."""
    rng = np.random.default_rng(33)
    rows = rng.dirichlet(np.full(V, 0.6), 20_000) * 0.9 + 0.1 / V
    other = tilted(rng, rows, 0.6)
    best = (other / rows).argmax(axis=1)
    moved = rows * 0.95
    moved[np.arange(len(rows)), best] += 0.05
    sums = bets(rows, other, emitted(rng, moved), shares=(0.05,))
    assert bet_test(sums, alpha=ALPHA).rejected
    assert not bet_test(sums, alpha=ALPHA, ball=0.05).rejected


@pytest.mark.distribution
def test_rows_that_are_off_may_be_those_of_the_widest_span():
    """One context in fifty is wholly another, and it is there that the bet can win: a TV of .02."""
    n, off = 10_000, np.arange(10_000) % 50 == 0
    high = np.where(off, 20.0, 1.0)
    ratios, low = np.where(off, 20.0, 1.0), np.where(off, 0.0, 1.0)
    sums = bet_sums("a", ratios, low, high, shares=(0.2,))
    assert bet_test(sums, alpha=ALPHA).rejected
    assert bet_test(sums, alpha=ALPHA, ball=0.002).rejected
    assert not bet_test(sums, alpha=ALPHA, ball=0.02).rejected
    mean_span = 0.2 * (high - low).mean()
    assert sums.log_wealth[0] - 0.02 * n * mean_span > 100.0  # a ball that is spread evenly


def test_sums_add_up_and_an_impossible_token_ends_a_bet():
    r, low, high = np.array([0.5, 2.0, 0.0]), np.zeros(3), np.full(3, 4.0)
    whole = bet_sums("a", r, low, high, shares=(1.0, 0.5))
    parts = [bet_sums("a", r[i], low[i], high[i], shares=(1.0, 0.5)) for i in ([0], [1, 2])]
    both = parts[0] + parts[1]
    assert (both.n, both.names) == (whole.n, whole.names)
    np.testing.assert_allclose(both.log_wealth, whole.log_wealth)
    np.testing.assert_allclose(both.widest, whole.widest)
    assert whole.log_wealth[0] == -math.inf
    assert whole.log_wealth[1] == pytest.approx(math.log(0.75 * 1.5 * 0.5))
    assert bet_test(parts[1], alpha=0.5).log_pvalue == 0.0
    with pytest.raises(ValueError, match="do not add up"):
        whole + bet_sums("b", r, low, high, shares=(1.0, 0.5))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (([], [], []), "expected \\(n,\\), n >= 1"),
        (([1.0], [0.0], [0.5]), "outside its limits"),
        (([-1.0], [-1.0], [2.0]), "negative"),
        (([math.nan], [0.0], [2.0]), "NaN"),
    ],
)
def test_what_is_no_ratio(values, says):
    with pytest.raises(ValueError, match=says):
        bet_sums("a", *values, shares=(0.5,))
    with pytest.raises(ValueError, match="shares are"):
        bet_sums("a", [1.0], [0.0], [2.0], shares=(1.5,))


def rates(rng, requests, bias=None):
    learned = LearnedRates()
    for _ in range(requests):
        rows = rng.dirichlet(np.full(V, 0.6), 40)
        law = rows if bias is None else rows * bias / (rows @ bias)[:, None]
        learned.add(rows, emitted(rng, law))
    return learned.sums


@pytest.mark.distribution
def test_rates_that_are_right_are_called_wrong_no_more_often_than_alpha():
    rng = np.random.default_rng(34)

    def simulate(runs):
        return [bet_test(rates(rng, 6), alpha=0.5).log_pvalue for _ in range(runs)]

    assert wrong_size(simulate, runs=1000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
def test_a_bias_that_nobody_named_is_learned():
    rng = np.random.default_rng(35)
    bias = np.exp(0.3 * rng.normal(size=V))
    assert bet_test(rates(rng, 60, bias), alpha=ALPHA).rejected
    assert not bet_test(rates(rng, 60), alpha=ALPHA).rejected


def test_rates_need_one_vocabulary():
    learned = LearnedRates()
    learned.add(np.full((2, 4), 0.25), [0, 1])
    assert isinstance(learned.sums, BetSums)
    assert learned.sums.log_wealth == pytest.approx(0.0)  # nothing is known yet
    with pytest.raises(ValueError, match="V is 5, expected 4"):
        learned.add(np.full((2, 5), 0.2), [0, 1])


GAIN = {"mean": 0.02, "variance": 0.05, "alpha": 1e-6, "bets": 28, "price": 0.001}


def test_the_tokens_for_a_power_are_the_fewest_that_have_it():
    for power in (0.5, 0.9, 0.99):
        n = bet_samples(**GAIN, power=power)
        assert bet_power(n - 1, **GAIN) < power <= bet_power(n, **GAIN)


def test_a_bet_that_wins_no_more_than_the_ball_costs_tells_nothing():
    assert bet_samples(**GAIN | {"mean": 0.001}) is None
    assert bet_samples(**GAIN | {"mean": 0.0011}) is not None


def test_without_noise_the_power_is_0_or_1():
    given = GAIN | {"variance": 0.0}
    n = bet_samples(**given)
    assert [bet_power(n + off, **given) for off in (-1, 0)] == [0.0, 1.0]

"""Bets that last: their value by hand, their rate over a life, and the delay that is promised."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from support.false_alarms import ALPHA

from simverify.stats import LastingBets, StepBets, lasting_delay
from simverify.stats.ratios.lasting import log_rest, log_stakes

BETS = StepBets.grid((0.25, 0.5, 0.75), (0.05, 0.15))


def test_a_bet_is_the_sum_over_its_beginnings():
    rng = np.random.default_rng(1)
    u = rng.random(40)
    lasting = LastingBets.begin(len(BETS.cuts))
    means = np.concatenate([lasting.add(BETS.log_factors(part)) for part in (u[:7], u[7:8], u[8:])])
    e, w = np.exp(BETS.log_factors(u)), np.exp(log_stakes(1, len(u)))
    for n in range(1, len(u) + 1):
        begun = sum(w[j] * e[:, j:n].prod(axis=1) for j in range(n))
        assert np.exp(means[n - 1]) == pytest.approx(begun.mean() + np.exp(log_rest(n)), rel=1e-12)
    assert lasting.log_evalue == pytest.approx(means[-1])
    assert (lasting.highest, lasting.highest_at) == (
        max(0.0, means.max()), means.argmax() + 1 if means.max() > 0 else 0
    )  # fmt: skip


def test_stakes_add_up_to_one():
    for n in (1, 10, 100_000):
        assert np.exp(log_stakes(1, n)).sum() + np.exp(log_rest(n)) == pytest.approx(1, rel=1e-12)
    assert np.isfinite(log_stakes(10**12, 2)).all()


def test_a_factor_has_expectation_one():
    below = BETS.shares / BETS.cuts
    above = (1 - BETS.shares) / (1 - BETS.cuts)
    assert BETS.cuts * below + (1 - BETS.cuts) * above == pytest.approx(1, rel=1e-15)
    assert len(BETS.cuts) == 12
    assert len(StepBets.grid((0.1,), (0.2,)).cuts) == 1  # -.1 is no chance


def lives(runs, tokens, law, rng, *, alpha, stakes=True):
    """How many lives raise an alarm, and when."""
    found = []
    for _ in range(runs):
        logs = BETS.log_factors(law(rng.random(tokens)))
        if stakes:
            lasting = LastingBets.begin(len(BETS.cuts))
            means = lasting.add(logs)
        else:  # a whole stake before every token: a mean time to an alarm, and no rate for a life
            run = np.cumsum(logs, axis=1)
            means = np.max(run - np.minimum.accumulate(np.minimum(run, 0.0), axis=1), axis=0)
        over = np.flatnonzero(means >= -np.log(alpha))
        found.append(int(over[0]) + 1 if len(over) else None)
    return found


@pytest.mark.distribution
def test_right_lives_alarm_at_their_rate_at_most_and_whole_stakes_do_not():
    rng = np.random.default_rng(2)
    runs, alpha = 400, 0.05
    limit = scipy_stats.binom.isf(ALPHA / 2, runs, alpha)
    right = lives(runs, 2000, lambda u: u, rng, alpha=alpha)
    assert sum(at is not None for at in right) <= limit
    wrong = lives(runs, 2000, lambda u: u, rng, alpha=alpha, stakes=False)
    assert sum(at is not None for at in wrong) > limit


@pytest.mark.distribution
@pytest.mark.parametrize("after", [0, 3000])
def test_a_change_is_told_within_the_delay_that_was_planned(after):
    """The law that moves a tenth of the mass below one cut, which is as hard as any."""
    rng, d, cut, alpha, runs = np.random.default_rng(3), 0.1, 0.4, 1e-3, 150

    def moved(u):
        v = u.copy()
        v[after:] = np.where(
            u[after:] < cut + d, u[after:] * cut / (cut + d),
            cut + (u[after:] - cut - d) * (1 - cut) / (1 - cut - d),
        )  # fmt: skip
        return v

    delay = int(lasting_delay(d, BETS, alpha=alpha, after=after))
    found = lives(runs, after + delay, moved, rng, alpha=alpha)
    told = sum(at is not None for at in found)
    assert told >= scipy_stats.binom.ppf(ALPHA / 2, runs, 0.9)
    # A third of the tokens is too few, so that the plan is no empty promise.
    early = sum(at is not None and at <= after + delay // 3 for at in found)
    assert early < scipy_stats.binom.isf(ALPHA / 2, runs, 0.5)


def test_delays_grow_with_the_life_the_ball_and_smaller_deviations():
    plain = lasting_delay(0.1, BETS, alpha=1e-6)
    assert plain < lasting_delay(0.1, BETS, alpha=1e-6, after=1000)
    assert plain < lasting_delay(0.1, BETS, alpha=1e-6, ball=0.005)
    assert plain < lasting_delay(0.05, BETS, alpha=1e-6)
    assert lasting_delay(0.01, BETS, alpha=1e-6, ball=0.1) == np.inf


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        (np.zeros((11, 3)), "expected \\(12, n\\)"),
        (np.zeros(12), "expected \\(12, n\\)"),
        (np.full((12, 1), -np.inf), "factors above 0"),
        (np.full((12, 1), np.nan), "factors above 0"),
    ],
)
def test_what_is_no_factor_is_refused(logs, words):
    with pytest.raises(ValueError, match=words):
        LastingBets.begin(12).add(logs)


def test_edges():
    lasting = LastingBets.begin(12)
    assert lasting.add(np.zeros((12, 0))).shape == (0,)
    assert lasting.log_evalue == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="bets is 0"):
        LastingBets.begin(0)
    for wrong in ({"deviation": 0.0}, {"alpha": 1.0}, {"after": -1}, {"groups": 0}, {"power": 1}):
        with pytest.raises(ValueError, match="expected"):
            lasting_delay(**{"deviation": 0.1, "bets": BETS, "alpha": 1e-6} | wrong)
    # No value is too large for the logarithm.
    assert LastingBets.begin(1).add(np.full((1, 5000), 3.0))[-1] > 14_000

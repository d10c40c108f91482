"""Random rows of every degenerate kind at random levels and balls: no crash, NaN or alarm.

Warnings are errors here, so that an overflow on the way is a crash too.
"""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from support.false_alarms import ALPHA

from simverify import stats
from simverify.stats import LastingBets, StepBets, lasting_delay
from simverify.stats.e_detector import log_reserve, log_stakes

# Bets that last: their value by hand, their rate over a life, and the delay that is promised.


BETS = StepBets.grid((0.25, 0.5, 0.75), (0.05, 0.15))


def test_a_bet_is_the_sum_over_its_beginnings():
    rng = np.random.default_rng(1)
    u = rng.random(40)
    lasting = LastingBets.begin(len(BETS.cuts))
    means = np.concatenate([lasting.add(BETS.log_factors(part)) for part in (u[:7], u[7:8], u[8:])])
    e, w = np.exp(BETS.log_factors(u)), np.exp(log_stakes(1, len(u)))
    for n in range(1, len(u) + 1):
        begun = sum(w[j] * e[:, j:n].prod(axis=1) for j in range(n))
        assert np.exp(means[n - 1]) == pytest.approx(
            begun.mean() + np.exp(log_reserve(n)), rel=1e-12
        )
    assert lasting.log_evalue == pytest.approx(means[-1])
    assert (lasting.highest, lasting.highest_at) == (
        max(0.0, means.max()), means.argmax() + 1 if means.max() > 0 else 0
    )  # fmt: skip


def test_stakes_add_up_to_one():
    for n in (1, 10, 100_000):
        assert np.exp(log_stakes(1, n)).sum() + np.exp(log_reserve(n)) == pytest.approx(
            1, rel=1e-12
        )
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


ROUNDS = 60
LEVELS = (0.5, 0.1, 1e-6, 1e-13, 1e-17, 1e-100, 1e-300)
BALLS = (0.0, 0.0, 0.0, 1e-9, 1e-3, 0.3)
WIDTHS = {"accept": 1.0, "contrast": 2.0, "surprise": 16.0}


def row(rng, vocab):
    """A law: smooth, peaked, truncated, one-hot, uniform, down to the smallest floats, dusty."""
    p = rng.dirichlet(np.full(vocab, 10.0 ** rng.integers(-2, 2)))
    kind = rng.integers(7)
    if kind == 1:
        p = np.where(np.argsort(np.argsort(-p)) < rng.integers(1, vocab + 1), p, 0.0)
    elif kind == 2:
        p = np.eye(vocab)[rng.integers(vocab)]
    elif kind == 3:
        p = np.ones(vocab)
    elif kind == 4:
        p = p * 10.0 ** rng.integers(-320, 0, vocab)
        p[rng.integers(vocab)] = 1.0
    elif kind == 5:
        p = np.where(rng.random(vocab) < 0.5, p, 0.0)
        p[rng.integers(vocab)] += 1e-9
    return p / p.sum()


def rows_of(rng, contexts, vocab):
    """Target and draft rows: apart, equal, proportional, or any of it but for an ulp."""
    p, q = (np.array([row(rng, vocab) for _ in range(contexts)]) for _ in range(2))
    kind = rng.integers(5)
    if kind == 0:
        q = p.copy()
    elif kind == 1:
        q = np.nextafter(p, 1.0)
    elif kind == 2:
        kept = np.argsort(np.argsort(-q, axis=1), axis=1) < rng.integers(1, vocab + 1)
        p = np.where(kept, q, 0.0)
        p = p / p.sum(axis=1, keepdims=True)
    elif kind == 3:
        q = np.maximum(p * (1.0 + 1e-15 * rng.standard_normal(p.shape)), 0.0)
        q = q / q.sum(axis=1, keepdims=True)
    return p, q


def streamed(counts, rows, scores, width):
    contexts = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    tokens = np.concatenate([np.repeat(np.arange(counts.shape[1]), each) for each in counts])
    moments = stats.score_moments(rows, scores)
    names = ("mean", "variance", "third", "fourth", "low", "high")
    given = {name: getattr(moments, name)[contexts] for name in names}
    return stats.score_sums(scores[contexts, tokens], **given, width=width)


def every_test(rng, counts, p, q):
    """Yield the results of all tests that counts serve."""
    options = {"alpha": float(rng.choice(LEVELS)), "ball": float(rng.choice(BALLS))}
    alpha = options["alpha"]
    other = np.array([row(rng, p.shape[1]) for _ in p])
    faults = np.array([other, q, (p + q) / 2, 0.9 * p + 0.1 * other, np.nextafter(p, 1.0)])
    faults = faults / faults.sum(axis=2, keepdims=True)
    yield stats.ratio_test(counts, p, faults, names="abcde", **options).test
    sums = stats.ratio_sums(counts, p, faults, names="abcde", ball=options["ball"])
    yield stats.ratio_gate(sums, alpha=alpha).test
    for name, width in WIDTHS.items():
        score = stats.surprise(p) if name == "surprise" else getattr(stats, name)(p, q)
        yield stats.score_test(stats.score_sums_of_contexts(counts, p, score), **options)
        if counts.sum() < 20_000:
            yield stats.score_test(streamed(counts, p, score, width), **options)
    for members in (stats.q_above_p(p, q), stats.rare_token(p, below=0.01)):
        bits = stats.indicator_sums_of_contexts(counts, p, members)
        yield stats.indicator_test(bits, **options)
    g2 = stats.transition_g2(counts, p)
    if g2.df:
        yield stats.g2_test(g2, **options)
    if g2.rare is not None:
        yield stats.rare_test(g2.rare, alpha=alpha)
    blocks = int(10 ** rng.uniform(1, 9))
    rates = np.sort(rng.random(3) * rng.choice([1.0, 1e-9]))[::-1]
    tails = np.sort(rng.binomial(blocks, rates))[::-1]
    yield stats.acceptance_test(tails, blocks, rates, rates, alpha=alpha)
    for certify in (stats.plug_in_certificate, stats.dual_certificate):
        assert 0.0 <= certify(counts, p, delta=alpha).bound <= 1.0


@pytest.mark.distribution
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.thorough(by_day=2)
def test_nothing_of_the_target_is_an_alarm(seed):
    rng = np.random.default_rng([601, seed])
    found = []
    for _ in range(ROUNDS):
        contexts, vocab = int(rng.integers(1, 6)), int(rng.integers(2, 12))
        p, q = rows_of(rng, contexts, vocab)
        sizes = (10.0 ** rng.uniform(0.0, rng.choice([1, 3, 6]), contexts)).astype(int)
        counts = np.array(
            [rng.multinomial(n, each / each.sum()) for n, each in zip(sizes, p, strict=True)]
        )
        for test in every_test(rng, counts, p, q):
            assert test.log_pvalue <= 0.0, test
            assert test.min_detectable >= 0.0, test
            assert not math.isnan(test.statistic), test
            found.append((test.log_pvalue, test.method))
    assert min(found)[0] > math.log(ALPHA / len(found)), min(found)


@pytest.mark.parametrize("tokens", range(1, 400, 7))
def test_a_symmetric_score_is_tested_at_any_size(tokens):
    """Its third moment is 0, and the normal law's end a root of the fourth alone."""
    ones = np.ones(tokens)
    scores = np.where(np.arange(tokens) % 2, 1.0, -1.0)
    sums = stats.score_sums(
        scores, mean=0 * ones, variance=ones, third=0 * ones, fourth=ones, low=-ones, high=ones,
        width=2.0,
    )  # fmt: skip
    for alpha in LEVELS:
        test = stats.score_test(sums, alpha=alpha)
        assert test.log_pvalue > math.log(0.1)
        assert test.min_detectable > 0.0

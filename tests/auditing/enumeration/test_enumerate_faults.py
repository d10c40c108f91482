# ruff: noqa: NPY002 -- these are verifiers as users write them
import math
import time
from collections import Counter

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.enumeration import enumerate_verify
from simverify.models.base import MarkovModel
from simverify.symbolic.provenance import CannotEnumerate

COMPACT = MarkovModel(
    "compact",
    np.array([5, 1, 6]) / 12,
    np.array([[6, 3, 3], [4, 2, 6], [3, 3, 6]]) / 12,
    np.array([6, 2, 4]) / 12,
    np.array([[5, 6, 1], [2, 9, 1], [4, 6, 2]]) / 12,
)


def norm(x):
    return x / x.sum()


def draw(weights, rng):
    return int(rng.choice(len(weights), p=norm(weights)))


def token(p, q, x, rng, factor=1.0):
    for i, y in enumerate(x):
        if rng.random() >= factor * p[i][y] / q[i][y]:
            return [*x[:i], draw(np.maximum(p[i] - q[i], 0), rng)]
    return [*x, draw(p[-1], rng)]


def block(p, q, x, rng):
    gamma, tau, weights = len(x), 0, [1.0]
    for i, y in enumerate(x):
        weights.append(min(1.0, weights[i] * p[i][y] / q[i][y]))
    for i in range(1, gamma + 1):
        h = weights[i]
        if i < gamma:
            left = np.maximum(weights[i] * p[i] - q[i], 0).sum()
            h = left / (left + 1 - weights[i]) if left + 1 - weights[i] > 0 else 1.0
        if rng.random() < h:
            tau = i
    row = p[tau] if tau == gamma else np.maximum(weights[tau] * p[tau] - q[tau], 0)
    return [*x[:tau], draw(row, rng)]


def inflated(p, q, x, rng):
    return token(p, q, x, rng, factor=1.0001)


def reused(p, q, x, rng):
    for i, y in enumerate(x):
        u = rng.random()
        if u >= p[i][y] / q[i][y]:
            cdf = np.cumsum(norm(np.maximum(p[i] - q[i], 0)))
            return [*x[:i], int(np.searchsorted(cdf, u, side="right"))]
    return [*x, draw(p[-1], rng)]


def naive_block(p, q, x, rng):
    n = len(x)
    i = np.arange(n)
    ratios = np.cumprod(np.minimum(1, p[i, x] / q[i, x]))
    accepted = np.flatnonzero(np.cumprod(rng.random(n)) < ratios)
    tau = accepted[-1] + 1 if len(accepted) else 0
    row = p[n] if tau == n else np.maximum(p[tau] - q[tau], 0)
    return [*x[:tau], draw(row, rng)]


def naive_block_in_logs(p, q, x, rng):
    tau, ratio, u = 0, 0.0, 0.0
    for i, y in enumerate(x):
        ratio += min(0.0, math.log(p[i][y] / q[i][y]))
        u = u + math.log(rng.random())
        if u < ratio:
            tau = i + 1
    row = p[-1] if tau == len(x) else np.maximum(p[tau] - q[tau], 0)
    return [*x[:tau], draw(row, rng)]


@pytest.mark.parametrize(
    ("rule", "gamma", "accepted"),
    [
        (token, 2, 101 / 72),
        (token, 3, 379 / 216),
        (block, 2, 211 / 144),
        (block, 3, 139 / 72),
    ],
)
def test_lossless_rules_are_lossless_with_the_known_acceptance(rule, gamma, accepted):
    result = compare_verify(rule, COMPACT, gamma)
    assert result.max_abs_deviation < 1e-14
    assert result.expected_accepted == pytest.approx(accepted, abs=1e-13)
    assert result.place is None
    assert result.findings == ()


def test_a_hundredth_of_a_percent_is_caught_exactly():
    result = compare_verify(inflated, COMPACT, 1)
    # Only the first row's tokens with p < q can be over-accepted: 0 by 5/12, 1 by 1/12.
    assert result.tv == pytest.approx(1e-4 * (5 + 1) / 12, rel=1e-6)
    assert result.place.position == 0
    assert result.place.stage == "accepted"


def test_a_uniform_used_twice_is_wrong_in_the_right_amount():
    p, q = np.array([[0.2, 0.5, 0.3], [1, 0, 0]]), np.array([[0.8, 0.1, 0.1]])
    law = enumerate_verify(reused, p, q, [0]).probabilities
    # Rejected when u >= 1/4; the residual's CDF steps at 2/3.
    assert law[(1,)] == pytest.approx(2 / 3 - 1 / 4, abs=1e-14)
    assert law[(2,)] == pytest.approx(1 / 3, abs=1e-14)
    assert compare_verify(reused, COMPACT, 3).tv > 0.05


@pytest.mark.parametrize("rule", [naive_block, naive_block_in_logs])
def test_products_of_uniforms_have_their_exact_law(rule):
    p = np.array([[0.3, 0.7], [0.2, 0.8], [0.5, 0.5]])
    q = np.array([[0.6, 0.4], [0.8, 0.2]])
    law = enumerate_verify(rule, p, q, [0, 0]).probabilities
    first, both = 0.3 / 0.6, 0.3 / 0.6 * 0.2 / 0.8
    two = both - both * math.log(both)  # P(u1 u2 < c) = c - c log c
    one = first - (both + both * math.log(first / both))  # u1 < c1 and u1 u2 >= c2
    assert sum(w for t, w in law.items() if len(t) == 3) == pytest.approx(two, abs=1e-14)
    assert sum(w for t, w in law.items() if len(t) == 2) == pytest.approx(one, abs=1e-14)
    assert compare_verify(rule, COMPACT, 3).tv > 0.1


def reseeded(p, q, x, rng):
    for i, y in enumerate(x):
        np.random.seed(11)
        if np.random.rand() >= p[i][y] / q[i][y]:
            np.random.seed(11)
            return [*x[:i], int(np.random.choice(3, p=norm(np.maximum(p[i] - q[i], 0))))]
    np.random.seed(11)
    return [*x, int(np.random.choice(3, p=p[-1]))]


def test_a_constant_seed_is_a_finding_and_repeats_its_draws():
    result = compare_verify(reseeded, COMPACT, 2)
    assert [finding.kind for finding in result.findings] == ["constant-seed"]
    assert __file__ in result.findings[0].message
    assert result.tv > 0.05


def test_a_seed_that_was_drawn_is_fine():
    def rule(p, q, x, rng):
        return token(p, q, x, np.random.default_rng(rng.integers(2**63)))

    result = compare_verify(rule, COMPACT, 2)
    assert result.max_abs_deviation < 1e-14
    assert result.findings == ()


def test_a_seed_from_the_clock_is_fine():
    def rule(p, q, x, rng):
        return token(p, q, x, np.random.default_rng(time.perf_counter_ns()))

    result = compare_verify(rule, COMPACT, 2)
    assert result.max_abs_deviation < 1e-14
    assert result.findings == ()


def test_two_seeds_made_of_one_draw_are_two_streams():
    def rule(p, q, x, rng):
        seed = rng.integers(2**62)
        one, two = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        return [int(one.random() < 0.5) + int(two.random() < 0.5)]

    law = enumerate_verify(rule, np.ones((2, 3)) / 3, np.ones((1, 3)) / 3, [0])
    assert law.probabilities == {(0,): 0.25, (1,): 0.5, (2,): 0.25}


def test_a_generator_kept_in_a_global_is_fresh_in_every_call():
    kept = {}

    def rule(p, q, x, rng):
        kept.setdefault("rng", np.random.default_rng(0))
        return token(p, q, x, kept["rng"])

    with pytest.raises(CannotEnumerate, match="not tracked"):
        compare_verify(rule, COMPACT, 2)  # hidden in a dict: said, not guessed


def test_noise_shared_by_two_different_races_is_followed():
    """A residual drawn by the noise that drew a guess is no draw from the target."""

    def rule(p, q, x, rng):
        noise = rng.gumbel(size=3)
        guess = np.argmax(np.log(q[0]) + noise)
        return [int(np.argmax(np.log(p[0]) + noise)) if guess else 0]

    assert compare_verify(rule, COMPACT, 1).tv > 1e-2


@pytest.mark.distribution
@pytest.mark.parametrize("rule", [block, naive_block, reused])
@pytest.mark.thorough
def test_the_law_agrees_with_plain_sampling(rule):
    p = np.array([COMPACT.target(x) for x in ((), (0,), (0, 1), (0, 1, 0))])
    q = np.array([COMPACT.draft(x) for x in ((), (0,), (0, 1))])
    law = enumerate_verify(rule, p, q, [0, 1, 0]).probabilities
    n, rng = 20_000, np.random.default_rng(1)
    counts = Counter(tuple(map(int, rule(p, q, [0, 1, 0], rng))) for _ in range(n))

    def log_likelihood_ratio(expected):
        return 2 * sum(c * math.log(c / (n * expected.get(t, 1e-300))) for t, c in counts.items())

    # Chi-square with at most 20 degrees of freedom: 1e-9 tail at 87.
    assert log_likelihood_ratio(law) < 87
    other = enumerate_verify(token, p, q, [0, 1, 0]).probabilities
    assert log_likelihood_ratio(other) > 87

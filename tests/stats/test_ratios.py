"""Sums of likelihood ratios: by hand, merged, streamed, at the edges of the support, in a ball."""

import math

import numpy as np
import pytest

from simverify.stats import STRENGTHS, ratio_sums

ROWS = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
FAULTS = np.array([[[0.3, 0.3, 0.4], [0.1, 0.2, 0.7]], [[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]])
NAMES = ("rescaled", "inverted")
COUNTS = np.array([[7, 2, 1], [0, 3, 11]])


def by_hand(m, strength):
    mixed = (1 - strength) * ROWS + strength * FAULTS[m]
    return (COUNTS * np.log(mixed / ROWS)).sum()


def test_values_by_hand():
    sums = ratio_sums(COUNTS, ROWS, FAULTS, names=NAMES)
    expected = [[by_hand(m, d) for d in STRENGTHS] for m in range(2)]
    assert sums.n == 24
    np.testing.assert_allclose(sums.log_evalues, expected, rtol=1e-12)
    np.testing.assert_allclose(sums.log_refutations, -sums.log_evalues, rtol=1e-12)
    mixed = 0.3 * FAULTS[1] + 0.7 * ROWS
    divergence = (COUNTS.sum(axis=1, keepdims=True) * mixed * np.log(mixed / ROWS)).sum()
    assert sums.growth[1, 1] == pytest.approx(divergence)


def tokens_of(counts):
    contexts, tokens = np.nonzero(counts)
    repeats = counts[contexts, tokens]
    return np.repeat(contexts, repeats), np.repeat(tokens, repeats)


@pytest.mark.parametrize("ball", [0.0, 0.01])
def test_shards_and_single_tokens_add_up_to_the_table(ball):
    table = ratio_sums(COUNTS, ROWS, FAULTS, names=NAMES, ball=ball)
    shards = ratio_sums(COUNTS - [[2, 0, 0], [0, 1, 0]], ROWS, FAULTS, names=NAMES, ball=ball)
    shards += ratio_sums([[2, 0, 0], [0, 1, 0]], ROWS, FAULTS, names=NAMES, ball=ball)
    # As many contexts as tokens, each with the row and the faults of its own.
    contexts, tokens = tokens_of(COUNTS)
    single = ratio_sums(
        np.eye(3, dtype=int)[tokens], ROWS[contexts], FAULTS[:, contexts], names=NAMES, ball=ball
    )
    for other in (single, shards):
        assert other.n == 24
        np.testing.assert_allclose(other.log_evalues, table.log_evalues, rtol=1e-10)
        np.testing.assert_allclose(other.log_refutations, table.log_refutations, rtol=1e-10)
        np.testing.assert_allclose(other.growth, table.growth)


def test_tokens_that_one_law_excludes():
    rows, fault = np.array([[0.5, 0.5, 0.0, 0.0]]), np.array([[[0.0, 0.5, 0.5, 0.0]]])

    def evidence(counts):
        sums = ratio_sums(np.array([counts]), rows, fault, names=("one",))
        return sums.log_evalues[0].tolist(), sums.log_refutations[0].tolist()

    # The fault excludes token 0: gone at strength 1, halved chances otherwise.
    forward, backward = evidence([2, 0, 0, 0])
    assert forward == pytest.approx([-math.inf] + [2 * math.log1p(-d) for d in STRENGTHS[1:]])
    assert backward == pytest.approx([math.inf] + [-2 * math.log1p(-d) for d in STRENGTHS[1:]])
    # The target excludes token 2: it is refuted with certainty.
    forward, backward = evidence([0, 1, 1, 0])
    assert forward == [math.inf] * 5
    assert backward == [-math.inf] * 5
    # Neither fault nor target allow token 3: it says nothing of either.
    for got, without in zip(evidence([0, 1, 0, 3]), evidence([0, 1, 0, 0]), strict=True):
        assert got == pytest.approx(without, abs=1e-12)
    # Both excluded: no verifier that follows the fault alone does that.
    forward, _ = evidence([1, 0, 1, 0])
    assert forward == [-math.inf] + [math.inf] * 4


def test_excluded_tokens_survive_a_merge():
    rows, fault = np.array([[0.5, 0.5, 0.0]]), np.array([[[0.0, 0.5, 0.5]]])
    parts = [ratio_sums(np.array([c]), rows, fault, names=("one",)) for c in ([1, 0, 0], [0, 0, 1])]
    for first, second in (parts, parts[::-1]):
        merged = first + second
        assert merged.log_evalues[0].tolist() == [-math.inf] + [math.inf] * 4


def test_far_beyond_float64():
    sums = ratio_sums(10**6 * COUNTS, ROWS, FAULTS, names=NAMES)
    assert np.isfinite(sums.log_evalues).all()
    assert sums.log_evalues[1, 0] == pytest.approx(1e6 * by_hand(1, 1.0))
    assert abs(sums.log_evalues[1, 0]) > 1e6
    rare = np.array([[1e-300, 1 - 1e-300]])
    huge = ratio_sums([[9, 9]], rare, rare[None, :, ::-1], names=("one",))
    due = 9 * (300 * math.log(10) + math.log(0.01) + math.log(0.99))
    assert huge.log_evalues[0, 4] == pytest.approx(due)


def worst_expectation(row, e_factor, ball):
    """Largest mean of ``e_factor`` over laws within TV ``ball``: mass moves from low to high."""
    worst, left = row.copy(), ball
    for x in np.argsort(e_factor):
        moved = min(left, worst[x])
        worst[x] -= moved
        left -= moved
    worst[int(np.argmax(e_factor))] += ball - left
    return float(worst @ e_factor)


@pytest.mark.parametrize("ball", [1e-3, 0.02, 0.3])
def test_factors_stay_below_one_all_over_the_ball(ball):
    """Exact: the worst law of the ball, for one token, both against target and fault."""
    row = np.array([[0.6, 0.35, 0.05, 0.0]])
    fault = np.array([[[0.1, 0.35, 0.45, 0.1]]])
    each = [
        ratio_sums(np.eye(4, dtype=int)[[x]], row, fault, names=("one",), ball=ball)
        for x in range(4)
    ]
    inside = np.array([[[0.1, 0.35, 0.55, 0.0]]])
    plain = [ratio_sums(np.eye(4, dtype=int)[[x]], row, inside, names=("one",)) for x in range(3)]
    for s, strength in enumerate(STRENGTHS):
        mixed = (1 - strength) * row[0] + strength * fault[0, 0]
        against = np.exp([e.log_evalues[0, s] for e in each])
        inverse = np.exp([e.log_refutations[0, s] for e in each])
        assert worst_expectation(row[0], against, ball) <= 1 + 1e-12
        assert worst_expectation(mixed, inverse, ball) <= 1 + 1e-12
        # Negative control: the factors of a point null exceed 1 in the ball.
        point = np.exp([e.log_evalues[0, s] for e in plain])
        assert worst_expectation(row[0, :3], point, ball) > 1 + 1e-4 * strength


def test_a_ball_costs_what_it_allows():
    sums = ratio_sums(COUNTS, ROWS, FAULTS, names=NAMES, ball=1e-4)
    ratios = FAULTS[1] / ROWS
    cost = (COUNTS.sum(axis=1) * np.log1p(1e-4 * np.ptp(ratios, axis=1))).sum()
    assert sums.log_evalues[1, 0] == pytest.approx(by_hand(1, 1.0) - cost)


GOOD = {"counts": COUNTS, "probabilities": ROWS, "alternatives": FAULTS, "names": NAMES}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": COUNTS / 2}, "pass raw counts"),
        ({"counts": -COUNTS}, "no negative count"),
        ({"alternatives": FAULTS[:, :1]}, r"expected \(M, 2, 3\)"),
        ({"alternatives": FAULTS[:0], "names": ()}, r"alternatives has shape \(0, 2, 3\)"),
        ({"alternatives": FAULTS * 0.9}, "alternatives row 0 sums to 0.9"),
        ({"alternatives": np.where(FAULTS == 0.4, np.nan, FAULTS)}, "negative or NaN"),
        ({"probabilities": ROWS[:, ::-1] * 2}, "probabilities row 0 sums to 2"),
        ({"names": ("a",)}, "expected 2 different ones"),
        ({"names": ("a", "a")}, "expected 2 different ones"),
        ({"ball": 1.0}, "ball is 1"),
        ({"ball": math.nan}, "ball is nan"),
    ],
)
def test_errors_of_tables(changes, message):
    with pytest.raises(ValueError, match=message):
        ratio_sums(**(GOOD | changes))


def test_sums_of_different_faults_do_not_add():
    first = ratio_sums(COUNTS, ROWS, FAULTS, names=NAMES)
    with pytest.raises(ValueError, match="do not add up"):
        _ = first + ratio_sums(COUNTS, ROWS, FAULTS, names=("other", "inverted"))
    with pytest.raises(ValueError, match="do not add up"):
        _ = first + ratio_sums(COUNTS, ROWS, FAULTS, names=NAMES, ball=0.1)

"""Acceptance curves by recursion against enumeration in fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from simverify.models.small import compact, toy
from simverify.simulators.exact.recursion import (
    kept_by_argmax,
    kept_by_match,
    kept_by_token,
    linear_curve,
)


def enumerate_curve(kept_start, kept_rows, gamma):
    """Sum the products of kept mass over every x^l, l = 1..gamma, in fractions."""
    curve = []
    for length in range(1, gamma + 1):
        total = Fraction(0)
        for x in itertools.product(range(len(kept_start)), repeat=length):
            mass = kept_start[x[0]]
            for before, token in itertools.pairwise(x):
                mass *= kept_rows[before % len(kept_rows)][token]
            total += mass
        curve.append(total)
    return curve


def fractions(rng, count, size):
    weights = rng.integers(0, 9, (count, size)) + np.eye(count, size, dtype=int)
    return [[Fraction(int(w), int(row.sum())) for w in row] for row in weights]


def as_floats(rows):
    return np.array(rows, dtype=np.float64)


RULES = {
    "token": (kept_by_token, lambda p, q: [min(a, b) for a, b in zip(p, q, strict=True)]),
    "match": (kept_by_match, lambda p, q: [a * b for a, b in zip(p, q, strict=True)]),
    "argmax": (
        kept_by_argmax,
        lambda p, q: [b if i == p.index(max(p)) else Fraction(0) for i, b in enumerate(q)],
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("states", "size"), [(1, 2), (3, 3), (2, 5), (4, 4)])
def test_curve_is_that_of_enumeration(rule, states, size):
    kept, kept_row = RULES[rule]
    rng = np.random.default_rng([states, size])
    p, q = fractions(rng, states + 1, size), fractions(rng, states + 1, size)
    exact = [kept_row(*rows) for rows in zip(p, q, strict=True)]
    table = kept(as_floats(p), as_floats(q))
    np.testing.assert_allclose(table, as_floats(exact), rtol=1e-15, atol=0)

    expected = enumerate_curve(exact[0], exact[1:], 4)
    curve = linear_curve(table[0], table[1:], 4)
    np.testing.assert_allclose(curve, as_floats(expected), rtol=1e-13, atol=0)

    if rule != "argmax" and states > 1:
        wrong = linear_curve(table[1], table[1:], 4)  # the start row taken from a state
        assert np.abs(wrong - as_floats(expected)).max() > 1e-4


def test_exact_numbers_of_the_token_rule():
    model = toy()
    start = kept_by_token(model.target_start, model.draft_start)
    rows = kept_by_token(model.target_rows, model.draft_rows)
    curve = linear_curve(start, rows, 10)
    np.testing.assert_allclose(curve, (2 / 3) ** np.arange(1, 11), rtol=1e-14)
    assert curve[:8].sum() == pytest.approx(12610 / 6561, rel=1e-14)

    model = compact()
    start = kept_by_token(model.target_start, model.draft_start)
    rows = kept_by_token(model.target_rows, model.draft_rows)
    for gamma, expected in ((1, 5 / 6), (2, 101 / 72), (3, 379 / 216)):
        assert linear_curve(start, rows, gamma).sum() == pytest.approx(expected, rel=1e-14)


def test_argmax_takes_the_lowest_id_among_equals():
    kept = kept_by_argmax(np.array([0.2, 0.4, 0.4]), np.array([0.5, 0.3, 0.2]))
    np.testing.assert_array_equal(kept, [0.0, 0.3, 0.0])


def test_large_vocabulary_with_few_states():
    size, states = 152_064 + 5, 64
    rng = np.random.default_rng(0)
    rows = rng.random((states, size))
    rows /= 2 * rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(linear_curve(rows[0], rows, 8), 0.5 ** np.arange(1, 9), rtol=1e-12)


@pytest.mark.parametrize(
    ("start", "rows", "gamma", "message"),
    [
        ([0.5, 0.5], [[0.5, 0.5, 0.0]], 2, "do not fit"),
        ([0.5, 0.5], [[0.5, 0.5]] * 3, 2, "3 states for 2 tokens"),
        ([0.5, 0.5], [[0.9, 0.5]], 2, "kept_rows row 0 sums to 1.4"),
        ([0.5, np.nan], [[0.5, 0.5]], 2, "kept_start row 0"),
        ([0.5, 0.5], [[0.5, -0.5]], 2, "lowest entry -0.5"),
        ([0.5, 0.5], [[0.5, 0.5]], 0, "gamma is 0"),
    ],
)
def test_bad_input(start, rows, gamma, message):
    with pytest.raises(ValueError, match=message):
        linear_curve(np.array(start), np.array(rows), gamma)

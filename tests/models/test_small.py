from fractions import Fraction

import numpy as np
import pytest

from simverify.models import get_model


@pytest.mark.parametrize("name", ["toy", "compact"])
def test_float_rows_are_the_fractions(name):
    model = get_model(name)
    exact = model.rational
    for rows in (exact.target_rows, exact.draft_rows):
        assert all(sum(row) == 1 for row in rows)
    assert sum(exact.target_start) == sum(exact.draft_start) == 1
    np.testing.assert_array_equal(model.target_rows, np.array(exact.target_rows, float))
    np.testing.assert_array_equal(model.draft_rows, np.array(exact.draft_rows, float))
    np.testing.assert_array_equal(model.target_start, np.array(exact.target_start, float))
    np.testing.assert_array_equal(model.draft_start, np.array(exact.draft_start, float))


def test_the_toy_is_independent_of_its_prefix():
    toy = get_model("toy")
    for prefix in ([], [0], [1], [0, 1, 1]):
        np.testing.assert_array_equal(toy.target(prefix), [1 / 3, 2 / 3])
        np.testing.assert_array_equal(toy.draft(prefix), [2 / 3, 1 / 3])


def test_the_rows_of_compact_in_twelfths():
    compact = get_model("compact")
    twelfths = [
        [round(12 * x) for x in law(prefix)]
        for law in (compact.target, compact.draft)
        for prefix in ([], [0], [1], [2])
    ]
    assert twelfths == [
        [5, 1, 6], [6, 3, 3], [4, 2, 6], [3, 3, 6],
        [6, 2, 4], [5, 6, 1], [2, 9, 1], [4, 6, 2],
    ]  # fmt: skip
    assert all(x.denominator in (1, 2, 3, 4, 6, 12) for x in compact.rational.target_start)


def test_compact_hides_no_fault():
    """Distinct rows, residuals of two tokens, a p/q below 1/2: what the toy lacks."""
    exact = get_model("compact").rational
    assert len(set(exact.target_rows)) == len(set(exact.draft_rows)) == 3
    pairs = list(zip(exact.target_rows, exact.draft_rows, strict=True))
    residuals = [sum(p > q for p, q in zip(*pair, strict=True)) for pair in pairs]
    assert max(residuals) >= 2
    assert min(p / q for pair in pairs for p, q in zip(*pair, strict=True)) < Fraction(1, 2)

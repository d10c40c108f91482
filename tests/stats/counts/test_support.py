"""Tokens of probability 0."""

import numpy as np
import pytest

from simverify.stats import support_violations

ROWS = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])


def test_clean_counts():
    result = support_violations(np.array([[9, 1, 0], [0, 7, 0], [0, 0, 0]]), ROWS)
    assert not result.rejected
    assert result.first is None
    assert result.tokens == 0


def test_one_token_is_enough_and_is_named():
    result = support_violations(np.array([[9, 1, 0], [2, 7, 1], [1, 1, 1]]), ROWS)
    assert result.rejected
    assert result.first == (1, 0, 2)
    assert result.tokens == 3


def test_tiny_probabilities_are_support():
    rows = np.array([[1.0, 5e-324]])
    assert not support_violations(np.array([[0, 3]]), rows).rejected


@pytest.mark.parametrize(
    ("counts", "rows", "message"),
    [
        (np.array([[1, -1]]), np.array([[0.5, 0.5]]), r"counts\[0, 1\] is -1"),
        (np.array([[1.0, 1.0]]), np.array([[0.5, 0.5]]), "dtype float64"),
        (np.array([1, 2]), np.array([0.5, 0.5]), r"shape \(2,\), expected 2 axes"),
        (np.array([[1, 2]]), np.array([[0.5, 0.25, 0.25]]), "probabilities has shape"),
        (np.array([[3]]), np.array([[1.0]]), "1 categories"),
        (np.array([[1, 2]]), np.array([[0.5, 0.4998]]), "row 0 sums to 0.9998"),
        (np.array([[1, 2]]), np.array([[1.5, -0.5]]), "row 0 has a negative or NaN"),
        (np.array([[1, 2]] * 2), np.array([[0.5, 0.5], [np.nan, 1.0]]), "row 1 has a negative"),
    ],
)
def test_errors(counts, rows, message):
    with pytest.raises(ValueError, match=message):
        support_violations(counts, rows)

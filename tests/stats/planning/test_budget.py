"""Shares of alpha."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simverify.stats import adjusted_pvalues, split_alpha


def test_shares_follow_the_weights_in_order():
    shares = split_alpha(1e-6, {"ratios": 2, "scores": 1, "rest": 1.0})
    assert list(shares) == ["ratios", "scores", "rest"]
    assert shares == pytest.approx({"ratios": 5e-7, "scores": 2.5e-7, "rest": 2.5e-7})


@given(
    st.floats(1e-12, 0.99),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40),
)
def test_shares_never_exceed_alpha(alpha, weights):
    shares = split_alpha(alpha, {str(i): w for i, w in enumerate(weights)})
    total = sum(Fraction(share) for share in shares.values())
    assert total <= Fraction(alpha) * (1 + Fraction(1, 2**53))
    assert math.fsum(shares.values()) <= alpha
    assert total > Fraction(alpha) * (1 - Fraction(1, 10**14))


@pytest.mark.parametrize(
    ("alpha", "weights", "message"),
    [
        (0.0, {"a": 1}, "alpha is 0"),
        (0.1, {}, "weights are empty"),
        (0.1, {"a": 0.0}, "weight of 'a' is 0"),
        (0.1, {"a": 1, "b": math.nan}, "weight of 'b' is nan"),
    ],
)
def test_errors(alpha, weights, message):
    with pytest.raises(ValueError, match=message):
        split_alpha(alpha, weights)


def test_adjusted_p_values_are_holms():
    """By hand: the smallest times their number, and so on; none below an earlier one."""
    logs = np.log([0.01, 0.04, 0.03, 0.5])
    assert adjusted_pvalues(logs) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert adjusted_pvalues([-math.inf, -5000.0, 0.0]) == pytest.approx([0.0, 0.0, 1.0])

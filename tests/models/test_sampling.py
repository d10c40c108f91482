"""From logits to rows."""

import numpy as np
import pytest
from scipy import special

from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling

LOGITS = np.array([2.0, 1.0, 1.0, 0.0, -np.inf])


def test_temperature_divides_the_logits():
    np.testing.assert_allclose(Sampling(0.5).rows(LOGITS), special.softmax(LOGITS / 0.5))
    assert Sampling().rows(LOGITS)[-1] == 0.0
    assert Sampling().rows(np.stack([LOGITS, LOGITS[::-1]])).shape == (2, 5)


def test_temperature_zero_takes_the_first_of_equals():
    assert Sampling(0.0).rows([1.0, 3.0, 3.0]).tolist() == [0.0, 1.0, 0.0]


def test_top_k_keeps_the_equals_of_the_last():
    assert (Sampling(top_k=2).rows(LOGITS) > 0).tolist() == [True, True, True, False, False]
    assert (Sampling(top_k=1).rows(LOGITS) > 0).sum() == 1
    np.testing.assert_array_equal(Sampling(top_k=9).rows(LOGITS), Sampling().rows(LOGITS))


def test_top_p_keeps_the_fewest_that_reach_it():
    p = np.array([0.5, 0.3, 0.2])
    for top_p, kept in ((0.4, 1), (0.51, 2), (0.79, 2), (0.81, 3), (1.0, 3)):
        row = Sampling(top_p=top_p).rows(np.log(p))
        assert (row > 0).sum() == kept
        np.testing.assert_allclose(row[:kept], p[:kept] / p[:kept].sum())


def test_top_p_counts_after_temperature_and_top_k():
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    # Of the two that top-k keeps the first has 4/7, more than half.
    assert (Sampling(top_k=2, top_p=0.5).rows(logits) > 0).sum() == 1
    assert (Sampling(top_p=0.5).rows(logits) > 0).sum() == 2


def test_half_precision_logits_give_float64_rows():
    row = Sampling().rows(LOGITS.astype(np.float16))
    assert row.dtype == np.float64
    assert abs(row.sum() - 1) < 1e-12


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_logits_of_no_law_are_refused(bad):
    with pytest.raises(ValueError, match="logits hold NaN or"):
        Sampling().rows(bad)


@pytest.mark.parametrize(
    "bad", [{"temperature": -1.0}, {"temperature": np.nan}, {"top_k": 0}, {"top_p": 0.0},
            {"top_p": 1.1}, {"top_p": np.nan}],
)  # fmt: skip
def test_values_out_of_range_are_refused(bad):
    with pytest.raises(UsageError, match="expected"):
        Sampling(**bad)

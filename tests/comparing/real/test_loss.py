"""The loss against plain drafts: lanes are compared one by one, on the same prompts."""

import numpy as np
import pytest

from simverify.comparing.real import _loss_document
from simverify.simulators.decoding.loop import LaneStatistics

LANES, CALLS = 32, 50


def lanes(means):
    """One quantity whose mean over the calls of each lane is given."""
    return LaneStatistics.of(np.asarray(means)[:, None] * CALLS, np.full(LANES, float(CALLS)))


def test_what_lanes_have_in_common_is_no_error_of_the_loss():
    own = np.random.default_rng(1).uniform(0.5, 3.0, LANES)
    found = _loss_document(lanes(0.9 * own), lanes(own))
    assert found.mean == pytest.approx(0.1)
    assert found.ci_high - found.ci_low < 1e-9
    apart = _loss_document(lanes(0.9 * own[::-1]), lanes(own))
    assert apart.mean == pytest.approx(0.1)
    assert apart.ci_high - apart.ci_low > 0.5


def test_nothing_is_lost_where_plain_drafts_keep_nothing():
    assert _loss_document(lanes(np.ones(LANES)), lanes(np.zeros(LANES))) is None


@pytest.mark.distribution
@pytest.mark.parametrize("common", [0.0, 0.4])
def test_the_interval_holds_the_loss_and_half_of_it_does_not(common):
    """Of 4,000 draws 4 are expected outside of 99.9%; more than 16 have a chance of some 1e-6."""
    rng = np.random.default_rng(2)
    missed, missed_by_half = 0, 0
    for _ in range(4000):
        shared = common * rng.standard_normal(LANES)
        kept = 1.6 + shared + 0.2 * rng.standard_normal(LANES)
        due = 2.0 + shared + 0.2 * rng.standard_normal(LANES)
        found = _loss_document(lanes(kept), lanes(due))
        off = abs(found.mean - 0.2)
        missed += off > (found.ci_high - found.ci_low) / 2
        missed_by_half += off > (found.ci_high - found.ci_low) / 4
    assert missed <= 16
    assert missed_by_half > 100

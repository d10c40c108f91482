"""Looks cover the run, and their shares add up to alpha."""

import pytest

from simverify.stats.planning.looks import plan_looks


def test_four_looks_with_their_shares():
    looks = plan_looks(1000, alpha=1e-6)
    assert [x.samples for x in looks] == [125, 250, 500, 1000]
    assert [x.alpha / 1e-6 for x in looks] == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 2])


@pytest.mark.parametrize("samples", [1, 2, 3, 7, 8, 9, 1001])
def test_short_runs_have_fewer_looks_and_never_more_alpha(samples):
    looks = plan_looks(samples, alpha=0.01)
    counts = [x.samples for x in looks]
    assert counts == sorted(set(counts))
    assert counts[0] >= 1
    assert counts[-1] == samples
    assert looks[-1].alpha == 0.005
    assert sum(x.alpha for x in looks) <= 0.01


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="samples is 0"):
        plan_looks(0, alpha=0.01)
    with pytest.raises(ValueError, match="alpha is 1"):
        plan_looks(10, alpha=1)

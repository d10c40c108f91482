"""The verdict of a run, from those of its parts."""

from itertools import product

import pytest

from simverify.results import overall

WORST_FIRST = ("FAIL", "INCONCLUSIVE", "PASS")


@pytest.mark.parametrize("verdicts", list(product(WORST_FIRST, repeat=3)), ids=" ".join)
def test_a_run_is_as_good_as_its_worst_part(verdicts):
    assert overall(list(verdicts)) == min(verdicts, key=WORST_FIRST.index)


def test_one_part_is_the_run():
    for verdict in WORST_FIRST:
        assert overall([verdict]) == verdict

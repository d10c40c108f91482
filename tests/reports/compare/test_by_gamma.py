import pytest

import simverify
from simverify.reports.compare.by_gamma import by_gamma


@pytest.fixture(scope="module")
def runs():
    verifiers = ["token", "block", "greedy", "match"]
    return {
        gamma: simverify.compare(["toy"], verifiers, gamma=gamma, blocks=1000) for gamma in (2, 3)
    }


def test_the_curve_of_long_drafts_has_the_exact_laws_of_shorter_ones(runs):
    shorter = {(row.model, row.verifier): row for row in runs[2].results}
    for row in runs[3].results:
        own = shorter[row.model, row.verifier]
        point = by_gamma(row)[1]
        assert point.gamma == 2
        assert point.block_efficiency == pytest.approx(own.block_efficiency, rel=1e-12)
        assert point.speedup == pytest.approx(own.speedup.predicted, rel=1e-12)
        assert point.accepted == pytest.approx(own.acceptance_ccdf.exact[1], rel=1e-12)


def test_the_last_point_is_the_result_itself(runs):
    for row in runs[3].results:
        last = by_gamma(row)[-1]
        assert last.block_efficiency == pytest.approx(row.block_efficiency, rel=1e-12)
        assert last.speedup == pytest.approx(row.speedup.predicted, rel=1e-12)
        assert last.measured_efficiency == pytest.approx(row.measured.mean + 1, rel=1e-12)

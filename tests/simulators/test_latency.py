"""The latency model: rows that are free cost nothing, others in proportion; by hand."""

import pytest

from simverify.simulators.latency import ALONE, Load, predicted_speedup
from simverify.trees import TreeShape, shape_of_levels


def test_one_sequence_is_the_known_formula():
    """Leviathan et al. 2023, theorem 3.8, to the last bit."""
    assert predicted_speedup(3.5, 8, 0.1) == 4.5 / (8 * 0.1 + 1)
    assert predicted_speedup(3.5, 8, 0.1, Load(64, None)) == 4.5 / (8 * 0.1 + 1)


def test_a_chain_is_a_draft():
    load = Load(8, 100)
    chain = shape_of_levels([1] * 8)
    assert predicted_speedup(2.0, 8, 0.1, load, shape=chain) == predicted_speedup(2.0, 8, 0.1, load)


@pytest.mark.parametrize(("rows", "time"), [(1, 1.0), (8, 1.0), (9, 9 * 8 / 64), (17, 17 * 8 / 64)])
def test_a_call(rows, time):
    assert Load(8, 64).call(rows) == time
    assert ALONE.call(rows) == 1.0


def test_two_drafts_of_two_tokens():
    """Batch 4, 10 rows: the target has 20, the draft 4 and then 8; plain decoding 4."""
    shape = shape_of_levels([2, 1])
    expected = (1.5 + 1) / (0.5 * (1 + 1) + 20 / 10)
    assert predicted_speedup(1.5, 2, 0.5, Load(4, 10), shape=shape) == pytest.approx(expected)
    expected = (1.5 + 1) * 4 / 2 / (0.5 * (4 / 2 + 8 / 2) + 20 / 2)
    assert predicted_speedup(1.5, 2, 0.5, Load(4, 2), shape=shape) == pytest.approx(expected)


def test_the_draft_computes_a_row_after_nodes_that_have_children():
    """Five leaves below one node: the draft's second call has one row."""
    shape = TreeShape((-1, -1, 0, 0, 0))
    expected = 2.0 / (0.5 * (1 + 1) + 6 / 2)
    assert predicted_speedup(1.0, 2, 0.5, Load(1, 2), shape=shape) == pytest.approx(expected)


def test_more_free_rows_are_never_slower():
    shape = shape_of_levels([3, 2, 1])
    speeds = [predicted_speedup(2.0, 3, 0.1, Load(8, rows), shape=shape) for rows in (20, 60, 128)]
    assert speeds == sorted(speeds)
    assert speeds[-1] == predicted_speedup(2.0, 3, 0.1)

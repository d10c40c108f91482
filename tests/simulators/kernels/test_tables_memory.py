"""Tables of a large vocabulary: filled row by row, over the model's own rows."""

import tracemalloc

import numpy as np
import pytest

from simverify.models.base import MarkovModel
from simverify.models.markov import markov
from simverify.simulators.tables import markov_tables, stacked


def test_scratch_memory_is_a_few_rows():
    model = markov(20_000)
    markov_tables(markov(5))  # compiled before the count begins
    tracemalloc.start()
    try:
        tables = markov_tables(model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = sum(part.nbytes for part in tables) - tables.target.nbytes - tables.draft.nbytes
    assert peak < kept + 12 * 20_000 * 8
    # Seven and a half tables of floats, and places in as many cells as V allows.
    assert kept < 9 * model.target_rows.nbytes


@pytest.mark.parametrize("copied", [False, True])
def test_rows_that_lie_together_are_not_copied(copied):
    model = markov(40)
    rows = model.target_rows.copy() if copied else model.target_rows
    whole = stacked(rows, model.target_start)
    np.testing.assert_array_equal(whole, np.vstack([rows, model.target_start]))
    assert np.shares_memory(whole, rows) is not copied


def test_a_start_from_elsewhere_is_not_taken_for_the_last_row():
    model = markov(40)
    start = model.target_start[::-1].copy()
    moved = MarkovModel("m", start, model.target_rows, model.draft_start, model.draft_rows)
    np.testing.assert_array_equal(markov_tables(moved).target[-1], start)

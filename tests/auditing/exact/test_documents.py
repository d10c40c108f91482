import itertools

import numpy as np
import pytest

from simverify.auditing.exact.documents import branches

ROWS = {(): (0.5, 0.25, 0.25), (1,): (0.25, 0.5, 0.25)}


def law():
    rng = np.random.default_rng(1)
    table = rng.random((3, 3, 3))
    return table / table.sum()


def test_every_token_at_every_place_with_what_is_emitted_and_due():
    table = law()
    found = {b.sequence: b for b in branches(table, lambda x: np.array(ROWS[x]), (1, 2))}
    assert list(found) == [(0,), (1,), (2,), (1, 0), (1, 1), (1, 2)]
    for sequence, branch in found.items():
        rest = itertools.product(range(3), repeat=3 - len(sequence))
        assert branch.probability_emitted == pytest.approx(
            sum(table[sequence + tokens] for tokens in rest)
        )
    due = {sequence: branch.probability_expected for sequence, branch in found.items()}
    assert due == {
        (0,): 0.5,
        (1,): 0.25,
        (2,): 0.25,
        (1, 0): 0.0625,
        (1, 1): 0.125,
        (1, 2): 0.0625,
    }


def test_the_whole_output_is_the_last_place():
    table = law()
    last = branches(table, lambda _: np.array([0.5, 0.25, 0.25]), (2, 0, 1))[-2]
    assert last.sequence == (2, 0, 1)
    assert last.probability_emitted == table[2, 0, 1]
    assert last.probability_expected == 0.25 * 0.5 * 0.25

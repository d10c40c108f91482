import numpy as np
import pytest

from simverify.engines import Batch, Emitted
from simverify.errors import UsageError

GOOD = {
    "draft_tokens": np.array([[0, 2], [1, -1]]),
    "target_probs": np.full((2, 3, 3), 1 / 3),
    "draft_probs": np.full((2, 2, 3), 1 / 3),
    "draft_len": np.array([2, 1]),
}


def test_a_ragged_batch_knows_its_sizes():
    batch = Batch(**GOOD)
    assert (batch.size, batch.gamma, batch.vocab_size) == (2, 2, 3)
    assert Batch(**{**GOOD, "draft_probs": None}).draft_probs is None


def test_a_block_is_a_batch_of_one_and_copied():
    p = np.full((3, 4), 0.25)
    batch = Batch.of_block(p, p[:2], np.array([3, 0]))
    assert batch.draft_tokens.tolist() == [[3, 0]]
    assert batch.draft_len.tolist() == [2]
    batch.target_probs[0, 0, 0] = 9
    assert p[0, 0] == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft_tokens": np.array([[0, 3], [1, -1]])}, r"draft_tokens\[0, 1\] = 3: pass an id"),
        ({"draft_tokens": np.array([[0, -1], [1, -1]])}, r"draft_tokens\[0, 1\] = -1: pass an id"),
        ({"draft_tokens": np.array([[0, 2], [1, 0]])}, r"draft_tokens\[1, 1\] = 0: pass -1"),
        ({"draft_tokens": np.array([0, 2])}, r"pass int64 \(B, G\)"),
        ({"draft_tokens": GOOD["draft_tokens"].astype(float)}, "float64"),
        ({"target_probs": np.ones((2, 2, 3))}, r"\(2, 3, V\)"),
        ({"target_probs": np.ones((2, 3, 3), dtype=np.float32)}, "float32: pass float64"),
        ({"draft_probs": np.ones((2, 2, 4))}, r"\(2, 2, 3\), or None"),
        ({"draft_len": np.array([2, 3])}, r"in 0\.\.2"),
        ({"draft_len": np.array([2])}, r"int64 \(2,\)"),
    ],
)
def test_bad_batches_say_what_to_pass(change, message):
    with pytest.raises(UsageError, match=message):
        Batch(**{**GOOD, **change})


def test_rows_that_probes_need_are_let_through():
    Batch(**{**GOOD, "target_probs": np.full((2, 3, 3), np.nan)})
    Batch(**{**GOOD, "draft_probs": np.zeros((2, 2, 3))})


def test_emitted_rows_lose_their_padding():
    emitted = Emitted(np.array([[0, 1, 2], [1, -1, -1]]), np.array([3, 1]))
    assert [emitted.row(0), emitted.row(1)] == [[0, 1, 2], [1]]


@pytest.mark.parametrize(
    ("tokens", "count", "message"),
    [
        ([[0, 1, 2], [1, 5, -1]], [3, 1], "pad with -1"),
        ([[0, 1, 2], [1, -1, -1]], [3, 4], r"in 0\.\.3"),
        ([[0, 1, 2], [1, -1, -1]], [3], r"int64 \(2,\)"),
        ([0, 1], [2], r"\(B, G\+1\)"),
    ],
)
def test_bad_results_say_what_to_return(tokens, count, message):
    with pytest.raises(UsageError, match=message):
        Emitted(np.array(tokens), np.array(count))

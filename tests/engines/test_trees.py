"""Draft trees in the layouts of engines: what is handed over, what is read, kernels on both."""

import numpy as np
import pytest

import simverify
from simverify import UsageError
from simverify.engines import Signature, TreeBatch, as_tree, tree_of_links, tree_of_mask
from simverify.trees import SCHEMES, DraftTree, TreeShape, shape_of_levels

IID = SCHEMES["iid"]
SHAPES = [
    shape_of_levels([1]), shape_of_levels([1, 1, 1]), shape_of_levels([3]),
    shape_of_levels([2, 2]), TreeShape((-1, -1, 0)), TreeShape((-1, 0, 1, -1, 3)),
    TreeShape((-1, 0, 0, -1, 1, 3, 3)),
]  # fmt: skip


def batch_of(shape, signature=None, vocab=3):
    rows = np.full((1, len(shape) + 1, vocab), 1 / vocab)
    tokens = np.arange(len(shape))[None] % vocab
    return TreeBatch(tokens, (shape,), rows, rows, signature or Signature())


def test_the_layouts_of_a_tree():
    batch = batch_of(TreeShape((-1, -1, 0, 0)))
    assert batch.candidates.tolist() == [[0, 0, 1, 2, 0]]
    assert batch.parents.tolist() == [[-1, 0, 0, 1, 1]]
    assert batch.depths.tolist() == [[0, 1, 1, 2, 2]]
    assert batch.retrieve_index.tolist() == [[0, 1, 2, 3, 4]]
    assert batch.retrieve_next_token.tolist() == [[1, 3, -1, -1, -1]]
    assert batch.retrieve_next_sibling.tolist() == [[-1, 2, -1, 4, -1]]
    seen = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4]]
    assert [np.flatnonzero(row).tolist() for row in batch.mask[0]] == seen


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_handed_over_is_read_back(shape):
    batch = batch_of(shape)
    tokens, links, siblings, mask = (
        x[0]
        for x in (
            batch.candidates, batch.retrieve_next_token, batch.retrieve_next_sibling, batch.mask,
        )
    )  # fmt: skip
    tree = DraftTree(shape, tuple(int(x) for x in tokens[1:]), IID)
    assert tree_of_links(tokens, links, siblings, IID) == tree
    assert tree_of_mask(tokens, mask, IID) == tree


@pytest.mark.parametrize(
    ("links", "siblings", "said"),
    [
        ([1, -1, -1], [-1, -1, -1], "no link leads to slot 2"),
        ([1, 2, 1], [-1, -1, -1], "slot 2 is linked to slot 1: expected a later one"),
        ([1, 1, -1], [-1, 2, -1], "slot 1 is linked to slot 1"),
        ([1, 2, -1], [-1, 2, -1], "slot 2 is a child of slot 0 and of slot 1"),
        ([2, -1, -1], [-1, -1, 1], "slot 2 is linked to slot 1"),
        ([3, -1, -1], [-1, 2, -1], "linked to slot 3: expected a later one, below 3"),
        ([-2, 2, -1], [-1, -1, -1], "slot 0 is linked to slot -2"),
        ([1, -1], [-1, 2, -1], "next_token has 2 slots: expected 3"),
    ],
)
def test_links_that_make_no_tree(links, siblings, said):
    with pytest.raises(UsageError, match=said):
        tree_of_links([0, 1, 2], links, siblings, IID)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ([[1, 0, 0], [1, 1, 0], [0, 1, 1]], r"slot 2 sees the slots \[1, 2\]"),
        ([[1, 0, 0], [1, 0, 0], [1, 0, 1]], r"slot 1 sees the slots \[0\]"),
        ([[1, 1, 0], [1, 1, 0], [1, 0, 1]], r"slot 0 sees the slots \[0, 1\]"),
        ([[1, 0, 0], [0, 1, 0], [1, 0, 1]], r"slot 1 sees the slots \[1\]"),
        ([[1, 0], [1, 1]], r"shape \(2, 2\): expected \(3, 3\)"),
    ],
)
def test_masks_that_make_no_tree(mask, said):
    with pytest.raises(UsageError, match=said):
        tree_of_mask([0, 1, 2], mask, IID)


def test_siblings_of_one_token_are_refused_where_the_scheme_draws_none_twice():
    with pytest.raises(UsageError, match="drafts no token twice"):
        tree_of_links([0, 1, 1], [1, -1, -1], [-1, 2, -1], SCHEMES["without-replacement"])


def test_tokens_that_are_no_integers_are_refused():
    with pytest.raises(UsageError, match=r"candidates is float64 \(3,\): expected integers"):
        tree_of_mask([0.0, 1.0, 2.0], np.eye(3), IID)
    with pytest.raises(UsageError, match="batch axis"):
        as_tree(lambda batch: [[0]], Signature(batched=False))


def target_only(batch, rng, *, threshold=1.0):
    """Walk down by one coin for all children of a slot, and write slots into buffers."""
    accept_index = np.full((1, int(batch.depths.max()) + 1), -1)
    predicts = np.full(batch.size, -1)
    slot, kept = 0, 0
    while True:
        accept_index[0, kept] = slot
        p, mass, coin = batch.target_probs[0, slot], 0.0, rng.random()
        left = p.copy()
        child = batch.retrieve_next_token[0, slot]
        while child != -1:
            token = batch.candidates[0, child]
            mass += p[token]  # right for siblings of which no two are equal
            if coin < mass / threshold:
                break
            left[token] = 0
            child = batch.retrieve_next_sibling[0, child]
        if child == -1:
            predicts[slot] = rng.choice(len(left), p=left / left.sum())
            return batch.emitted(accept_index, predicts)
        predicts[slot] = token
        slot, kept = child, kept + 1


def lenient(batch, rng):
    return target_only(batch, rng, threshold=0.8)


def by_coins(batch, coins):
    """Take the target's token at a slot's own coin, in torch and single precision."""
    torch = pytest.importorskip("torch")
    slot, out = 0, []
    while True:
        bounds = torch.cumsum(batch.target_probs[0, slot], 0)
        out.append(
            int(torch.searchsorted(bounds, coins[0, slot], right=True).clamp(max=len(bounds) - 1))
        )
        child = int(batch.retrieve_next_token[0, slot])
        while child != -1 and int(batch.candidates[0, child]) != out[-1]:
            child = int(batch.retrieve_next_sibling[0, child])
        if child == -1:
            return [out]
        slot = child


def by_mask(batch, rng):
    """Draw the target's token and look for it below, in numpy, from a mask."""
    slot, out = 0, []
    while True:
        p = batch.target_probs[0, slot]
        out.append(int(rng.choice(len(p), p=p)))
        below = [
            s for s in range(slot + 1, batch.size)
            if batch.mask[0, s, slot] and batch.depths[0, s] == batch.depths[0, slot] + 1
            and batch.candidates[0, s] == out[-1]
        ]  # fmt: skip
        if not below:
            padded = np.full((1, int(batch.depths.max()) + 1), -1)
            padded[0, : len(out)] = out
            return padded
        slot = below[0]


NUMPY = Signature(randomness="numpy")
TORCH = Signature(randomness="coins", arrays="torch", dtype="float32")


@pytest.mark.parametrize(
    ("function", "signature", "scheme", "tree", "verdict"),
    [
        (target_only, NUMPY, "top-k", "2,1", "PASS"),
        (lenient, NUMPY, "top-k", "2", "FAIL"),
        (target_only, NUMPY, "iid", "2", "FAIL"),
        (by_mask, NUMPY, "without-replacement", "2", "PASS"),
        (by_coins, TORCH, "top-k", "2", "PASS"),
    ],
)
@pytest.mark.thorough(by_day=3)
def test_an_engines_function_on_trees_is_judged(function, signature, scheme, tree, verdict):
    run = simverify.audit(
        as_tree(function, signature), contract="tree", scheme=scheme, tree=tree, gamma=2, vocab=3
    )
    assert (run.verdict, run.tier) == (verdict, "exact")

"""Drafts of layers in groups: their laws and their cache, entry by entry."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.naive_llama import NaiveLlama  # noqa: E402
from support.phases import (  # noqa: E402
    KEPT,
    PROMPTS,
    drafted_tree,
    phases,
)
from support.real_models import (  # noqa: E402
    deep_model,
    deep_pair,
)

from simverify.drafting import layer_groups  # noqa: E402
from simverify.drafting.easyspec import (  # noqa: E402
    EasySpec,
    PlainDrafter,
)
from simverify.drafting.method import DraftMethod  # noqa: E402
from simverify.simulators.decoding.loop import (  # noqa: E402
    Job,
    decode,
    verifier_factory,
)
from simverify.simulators.decoding.trees import (  # noqa: E402
    StatelessTreeVerifier,
    decode_trees,
)
from simverify.trees import (  # noqa: E402
    SCHEMES,
    Drafting,
    shape_of_levels,
)
from simverify.verifiers import VERIFIERS  # noqa: E402
from simverify.verifiers.trees import TREE_VERIFIERS  # noqa: E402

KINDS = pytest.mark.parametrize("kind", ["llama", "qwen2"])
EXACT, NEAR, APART = 1e-6, 1e-5, 1e-2
LAYERS, WIDE = 10, 4
TREE = [(1, -1), (2, -1), (2, 0), (5, 0), (1, 1), (5, 3)]
"""Two siblings, three below them, one below those, as (token, parent)."""


def laws_of(model, exactly, fuzzily, wide=WIDE):
    """Logits (n, V) of the naive model after each token that is read fuzzily, and before them."""
    naive = NaiveLlama(model)
    found = [naive.feed(exactly, layer_groups(LAYERS, 1))[-1]]
    found += [naive.feed([token], layer_groups(LAYERS, wide))[-1] for token in fuzzily]
    return torch.stack(found).numpy()


def entries(drafter, request):
    """A request's keys and values in each layer, those in use, (layers, 2, heads, n, d)."""
    cached = drafter.cached
    slots = cached._used[request]
    return torch.stack(
        [torch.stack([x[request][:, slots] for x in (y.keys, y.values)])
         for y in cached._cache.layers]
    )  # fmt: skip


def naive_entries(model, text):
    naive = NaiveLlama(model)
    naive.feed(text, layer_groups(LAYERS, 1))
    return torch.stack([torch.stack([*x]) for x in zip(naive.keys, naive.values, strict=True)])


@KINDS
@pytest.mark.thorough
def test_laws_are_those_of_fuzzy_passes_behind_an_exact_text(kind):
    model, other = deep_model(kind, LAYERS), 0.0
    for texts, drafts, heads in phases(EasySpec(model, 3, WIDE)):
        for text, own, found in zip(texts, drafts, heads, strict=True):
            np.testing.assert_allclose(found, laws_of(model, text, own), atol=NEAR)
            np.testing.assert_allclose(found[0], laws_of(model, text, ())[0], atol=NEAR)
            other = max(other, np.abs(found - laws_of(model, text, own, wide=1)).max())
    assert other > APART  # exact passes would not have done


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.thorough
def test_after_calibration_the_cache_is_the_exact_one(kind, dtype):
    """Of float64 against plain formulas, of float32 against the model's own pass, by its scale."""
    model = copy.deepcopy(deep_model(kind, LAYERS)).to(dtype)
    drafter, fuzzy = EasySpec(model, 3, WIDE), 0.0
    for texts, drafts, _ in phases(drafter):
        for r, (text, own) in enumerate(zip(texts, drafts, strict=True)):
            found, due = entries(drafter, r), naive_entries(model, [*text, *own])
            if dtype == torch.float32:
                whole = PlainDrafter(model, 1)
                whole.begin([[*text, *own]])
                due = entries(whole, 0)
            assert found.shape == due.shape
            n = len(text)
            off = (found - due).abs()
            scale = 1.0 if dtype == torch.float64 else due.abs().max()
            assert off[..., :n, :].max() < EXACT * scale
            fuzzy = max(fuzzy, off[..., n:, :].max())
    assert fuzzy > APART  # those of drafts are fuzzy, and all of them are gone later


def test_without_calibration_fuzzy_entries_stay():
    """Every token behind the prompt was read fuzzily, the one that begins a phase too."""
    model, drafter = deep_model(layers=LAYERS), EasySpec(deep_model(), 3, WIDE, calibration=False)
    for texts, drafts, heads in phases(drafter):
        for r, (text, own) in enumerate(zip(texts, drafts, strict=True)):
            prompt = PROMPTS[r][:-1]
            naive = NaiveLlama(model)
            if prompt:
                naive.feed(prompt, layer_groups(LAYERS, 1))
            due = [
                naive.feed([token], layer_groups(LAYERS, WIDE))[-1]
                for token in [*text[len(prompt) :], *own]
            ]
            np.testing.assert_allclose(
                heads[r], torch.stack(due[-len(own) - 1 :]).numpy(), atol=NEAR
            )


def test_a_request_that_ended_leaves_nothing():
    drafter = EasySpec(deep_model(), 3, WIDE)
    for _ in phases(drafter):
        pass
    drafter.end([False, True, False])
    drafter.read(1, [9, 9])
    heads = drafter.begin([[1], [3], [2]])
    np.testing.assert_allclose(heads[1], laws_of(deep_model(), [9, 9, 3], ())[0], atol=NEAR)
    assert drafter.cached.lengths[1] == 3


def test_requests_that_go_on_are_the_ones_selected():
    drafter = EasySpec(deep_model(), 3, WIDE)
    for texts, own, _ in phases(drafter):
        last = [[*texts[r], *own[r][: KEPT[-1][r]]] for r in range(3)]
    drafter.select([2, 0])
    heads = drafter.begin([[4], [5]])
    for found, text in zip(heads, ([*last[2], 4], [*last[0], 5]), strict=True):
        np.testing.assert_allclose(found, laws_of(deep_model(), text, ())[0], atol=NEAR)


@pytest.mark.parametrize("calibration", [True, False])
def test_nodes_of_a_tree_have_the_laws_of_their_ways(calibration):
    model = copy.deepcopy(deep_model()).double()
    drafter = EasySpec(model, 3, WIDE, calibration=calibration)
    trees = [TREE, TREE[:2], []]
    for r, prompt in enumerate(PROMPTS):
        drafter.read(r, prompt[:-1])
    found = drafted_tree(drafter, [prompt[-1:] for prompt in PROMPTS], trees)
    for prompt, rows in zip(PROMPTS, found, strict=True):
        exactly, fuzzily = (prompt, []) if calibration else (prompt[:-1], prompt[-1:])
        for way, row in rows.items():
            if exactly:
                due = laws_of(model, exactly, [*fuzzily, *way])[-1]
                np.testing.assert_allclose(row, due, atol=NEAR)
    assert [len(rows) for rows in found] == [7, 3, 1]
    # Of the first tree the way 0, 3, 5 is kept; of the second its other child; nothing of the last.
    drafter.accept([[0, 3, 5], [1], []])
    texts = [[*PROMPTS[0], 1, 5, 5], [*PROMPTS[1], 2], PROMPTS[2]]
    heads = drafter.begin([[3], [4], [6]])
    if calibration:
        for r, (text, new) in enumerate(zip(texts, (3, 4, 6), strict=True)):
            np.testing.assert_allclose(heads[r], laws_of(model, [*text, new], ())[0], atol=NEAR)
            due = naive_entries(model, [*text, new])
            assert (entries(drafter, r) - due).abs().max() < EXACT
    assert drafter.cached.lengths.tolist() == [len(text) + 1 for text in texts]


def blocks_of(method, sampling=None):
    found = []
    job = Job(
        ((1, 2, 3), (4,), (5, 6)), gamma=4, lanes=3, lane_tokens=40, request_tokens=13, seed=3
    )
    decode(
        deep_pair((2, 3)), job, verifier_factory(VERIFIERS["block"]), found.append, method=method
    )
    return found


def same(one, other):
    return len(one) == len(other) and all(
        a.drafts == b.drafts and a.emitted == b.emitted
        and np.array_equal(a.p, b.p) and np.array_equal(a.q, b.q)
        for a, b in zip(one, other, strict=True)
    )  # fmt: skip


@pytest.mark.parametrize("calibration", [True, False])
@pytest.mark.thorough
def test_groups_of_one_are_plain_drafts_to_the_last_bit(calibration):
    plain = blocks_of(DraftMethod())
    assert same(plain, blocks_of(DraftMethod("easyspec", 1, calibration=calibration)))
    assert not same(plain, blocks_of(DraftMethod("easyspec", 2, calibration=calibration)))


def test_groups_of_one_leave_the_plain_cache():
    model = deep_model()
    one, other, grouped = PlainDrafter(model, 3), EasySpec(model, 3, 1), EasySpec(model, 3, 2)
    for _ in zip(phases(one), phases(other), phases(grouped), strict=True):
        for r in range(3):
            assert torch.equal(entries(one, r), entries(other, r))
    assert not torch.equal(entries(one, 0), entries(grouped, 0))


@pytest.mark.parametrize("levels", [(1, 1, 1), (2, 2)])
@pytest.mark.thorough
def test_trees_in_groups_of_one_are_plain_trees_to_the_last_bit(levels):
    def trees(method):
        found = []
        job = Job(((1, 2), (4,)), len(levels), lanes=2, lane_tokens=24, request_tokens=9, seed=1)
        decode_trees(
            deep_pair(), job, Drafting(shape_of_levels(levels), SCHEMES["iid"]),
            lambda: StatelessTreeVerifier(TREE_VERIFIERS["recursive"].rule), found.append, method,
        )  # fmt: skip
        return [(x.output, x.drawn.tree.tokens, x.drawn.q.tobytes()) for x in found]

    assert trees(DraftMethod()) == trees(DraftMethod("easyspec", 1))
    assert trees(DraftMethod()) != trees(DraftMethod("easyspec", 3))

"""The fuzzy pass against plain formulas: logits and cache, whole texts, ragged batches, trees."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from support.naive_llama import NaiveLlama  # noqa: E402
from support.real_models import (  # noqa: E402
    VOCAB_SIZE,
    deep_model,
)

from simverify.drafting import (  # noqa: E402
    fuzzy_logits,
    layer_groups,
)
from simverify.drafting.fuzzy import group_layers  # noqa: E402
from simverify.models.kv_cache import CachedModel, cache_argument  # noqa: E402

KINDS = pytest.mark.parametrize("kind", ["llama", "qwen2"])
NEAR = 1e-5
APART = 1e-2
"""What is computed another way is off by far more than rounding."""


def text(n, seed=0):
    return torch.randint(VOCAB_SIZE, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def off(found, due):
    return float((torch.as_tensor(found).double() - due).abs().max())


def cache_off(cache, naive, request=0, slots=None):
    """How far a request's keys and values are from the naive ones, in any layer."""
    worst = 0.0
    for i, layer in enumerate(cache.layers):
        for own, due in ((layer.keys, naive.keys[i]), (layer.values, naive.values[i])):
            own = own[request] if slots is None else own[request][:, slots]
            worst = max(worst, off(own, due))
    return worst


@KINDS
@pytest.mark.parametrize("wide", [1, 2, 3, 4, 50])
def test_whole_texts(kind, wide):
    model = deep_model(kind)
    texts = [text(13, seed) for seed in (1, 2)]
    found = fuzzy_logits(model, texts, layer_parallel=wide)
    for own, ids in zip(found, texts, strict=True):
        assert off(own, NaiveLlama(model).feed(ids, layer_groups(10, wide))) < NEAR


@KINDS
def test_fuzzy_tokens_behind_an_exact_prompt(kind):
    model, naive, ids = deep_model(kind), NaiveLlama(deep_model(kind)), text(12)
    cache = transformers.DynamicCache(config=model.config)
    exact, groups = layer_groups(10, 1), layer_groups(10, 4)
    fuzzy = group_layers(model, 4)
    with torch.no_grad():
        for run, split, piece in (
            (model, exact, ids[:6]), (fuzzy, groups, ids[6:7]), (fuzzy, groups, ids[7:9]),
            (model, exact, ids[9:11]), (fuzzy, groups, ids[11:]),
        ):  # fmt: skip
            found = run(torch.tensor([piece]), use_cache=True, **cache_argument(run, cache)).logits
            assert off(found[0], naive.feed(piece, split)) < NEAR
    assert cache_off(cache, naive) < NEAR


@KINDS
def test_requests_of_different_lengths(kind):
    model, groups = deep_model(kind), layer_groups(10, 4)
    naive = [NaiveLlama(model) for _ in range(3)]
    cached = CachedModel(group_layers(model, 4), 3)
    cached.read(1, (begun := text(5)))
    naive[1].feed(begun, groups)
    for step, sizes in enumerate([(4, 1, 2), (1, 1, 1), (2, 3, 1)]):
        pieces = [text(n, seed=10 * step + r) for r, n in enumerate(sizes)]
        found = cached.feed(pieces)
        for own, request, piece in zip(found, naive, pieces, strict=True):
            assert off(own, request.feed(piece, groups)) < NEAR
    for r, request in enumerate(naive):
        assert cache_off(cached._cache, request, r, cached._used[r]) < NEAR


@KINDS
def test_trees_of_drafts(kind):
    """Two levels: each node sees the prompt and its own way alone, at its depth's position."""
    model, groups, prompt = deep_model(kind), layer_groups(10, 4), text(6)
    cached = CachedModel(group_layers(model, 4), 2)
    cached.feed([prompt, prompt[:3]])
    levels = [([4, 7], [-1, -1]), ([1, 9, 9], [0, 0, 1])]
    found = [cached.grow([tokens, []], [parents, []])[0] for tokens, parents in levels]
    naive = NaiveLlama(model)
    naive.feed(prompt, groups)
    parents = [-1, -1, 0, 0, 1]
    for level, (tokens, _) in enumerate(levels):
        begun = 2 * level
        visible = torch.zeros(len(tokens), 6 + begun + len(tokens), dtype=torch.bool)
        visible[:, :6] = True
        for i in range(len(tokens)):
            node = begun + i
            while node >= 0:
                visible[i, 6 + node] = True
                node = parents[node]
        due = naive.feed(tokens, groups, [6 + level] * len(tokens), visible)
        assert off(found[level], due) < NEAR


@KINDS
def test_groups_of_one_are_the_model_bit_by_bit(kind):
    model = deep_model(kind)
    one, other = CachedModel(model, 2), CachedModel(group_layers(model, 1), 2)
    for cached in (one, other):
        cached.read(0, text(5))
    for pieces in ([[1, 2, 3], [4]], [[5], [6]]):
        for own, due in zip(other.feed(pieces), one.feed(pieces), strict=True):
            assert (own == due).all()
    tree = [[1, 2], [3]], [[-1, -1], [-1]]
    for own, due in zip(other.grow(*tree), one.grow(*tree), strict=True):
        assert (own == due).all()
    for own, due in zip(other._cache.layers, one._cache.layers, strict=True):
        assert torch.equal(own.keys, due.keys)
        assert torch.equal(own.values, due.values)


def test_groups_of_four_are_not_the_model():
    model, ids = deep_model(), text(13)
    assert off(fuzzy_logits(model, [ids], 4)[0], fuzzy_logits(model, [ids], 1)[0].double()) > APART


@KINDS
def test_mlps_run_in_order(kind):
    """Each is given what the attention and the MLPs before it made, not the group's input."""
    model, ids, groups = deep_model(kind), text(13), layer_groups(10, 4)
    wrong = NaiveLlama(model, same_input=True)
    assert off(fuzzy_logits(model, [ids], 4)[0], wrong.feed(ids, groups)) > APART
    alone = NaiveLlama(model, same_input=True)  # which groups of one do not tell from the right one
    assert off(fuzzy_logits(model, [ids], 1)[0], alone.feed(ids, layer_groups(10, 1))) < NEAR


def test_keys_and_values_are_those_of_the_group_s_input():
    model = deep_model("qwen2")
    cache, inputs = transformers.DynamicCache(config=model.config), {}
    fuzzy = group_layers(model, 4)
    runs = list(fuzzy.base_model.layers)
    for number, run in enumerate(runs):
        run.register_forward_pre_hook(
            lambda _, args, number=number: inputs.__setitem__(number, args[0])
        )
    with torch.no_grad():
        fuzzy(torch.tensor([text(9)]), use_cache=True, **cache_argument(fuzzy, cache))
        for number, group in enumerate(layer_groups(10, 4)):
            for i in group:
                layer = model.model.layers[i]
                values = layer.self_attn.v_proj(layer.input_layernorm(inputs[number]))
                due = values.unflatten(-1, (2, -1)).transpose(1, 2)
                assert torch.equal(cache.layers[i].values, due)


def test_layers_that_the_model_does_not_run_are_in_no_group():
    model = copy.deepcopy(deep_model())
    ids = [text(9)]
    model.config.num_hidden_layers = 6
    found = [len(getattr(run, "layers", "1")) for run in group_layers(model, 4).base_model.layers]
    assert found == [1, 3, 1, 1]
    with torch.no_grad():
        assert torch.equal(fuzzy_logits(model, ids, 1), model(torch.tensor(ids)).logits)


def test_weights_are_shared_and_the_model_stays_as_it_was():
    model, ids = deep_model(), torch.tensor([text(9)])
    with torch.no_grad():
        before = model(ids).logits
        fuzzy = group_layers(model, 4)
        fuzzy(ids)
        assert torch.equal(model(ids).logits, before)
    own = sorted(x.data_ptr() for x in model.parameters())
    assert sorted(x.data_ptr() for x in fuzzy.parameters()) == own
    assert (fuzzy.device, fuzzy.dtype, fuzzy.training) == (model.device, model.dtype, False)
    assert len(model.model.layers) == 10

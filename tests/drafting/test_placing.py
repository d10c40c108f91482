"""Attention blocks on devices of their own: what can be seen where there is one device."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import (  # noqa: E402
    VOCAB_SIZE,
    deep_model,
)

from simverify.drafting.fuzzy import group_layers  # noqa: E402
from simverify.models.kv_cache import CachedModel  # noqa: E402

TEXTS = [[i * 5 % VOCAB_SIZE for i in range(9)], [3, 1, 4]]


def test_a_placed_model_gives_what_it_gave():
    model = copy.deepcopy(deep_model())
    due = [CachedModel(x, 2).feed(TEXTS) for x in (model, group_layers(model, 4))]
    fuzzy = group_layers(model, 4, devices=["cpu", "cpu"])
    found = [CachedModel(x, 2).feed(TEXTS) for x in (model, fuzzy)]
    for own, before in zip(found, due, strict=True):
        assert all((x == y).all() for x, y in zip(own, before, strict=True))


def test_another_placement_takes_the_place_of_the_first():
    model = copy.deepcopy(deep_model())
    for wide in (2, 4):
        group_layers(model, wide, devices=["cpu"])
        for layer in model.model.layers:
            assert len(layer.input_layernorm._forward_pre_hooks) == 1
            assert len(layer.self_attn._forward_pre_hooks) == 1
            assert len(layer.self_attn._forward_hooks) == 1


def test_members_of_a_group_lie_on_the_devices_in_turn(monkeypatch):
    placed = {}
    monkeypatch.setattr(
        "simverify.drafting.fuzzy._move_layer",
        lambda layer, device, home: placed.__setitem__(layer.self_attn.layer_idx, device.index),
    )
    group_layers(deep_model(), 4, devices=["cuda:0", "cuda:1", "cuda:2"])
    assert placed == {0: 0, 1: 0, 2: 1, 3: 2, 4: 0, 5: 1, 6: 2, 7: 0, 8: 0, 9: 0}


def test_what_a_block_is_given_and_gives_is_carried():
    """On the device ``meta`` nothing is computed, but everything has a place."""
    model = copy.deepcopy(deep_model())
    seen = {}
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_hook(
            lambda _, __, out, i=layer.self_attn.layer_idx: seen.__setitem__(i, out.device.type)
        )
    group_layers(model, 4, devices=["cpu", "meta"])
    with pytest.raises(NotImplementedError, match="meta"):  # there is no way back from there
        model(torch.tensor([TEXTS[0]]))
    assert seen == {0: "cpu", 1: "cpu", 2: "meta"}

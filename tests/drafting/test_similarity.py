"""Similarities of fuzzy and exact passes, by layer."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.naive_llama import NaiveLlama  # noqa: E402
from support.real_models import (  # noqa: E402
    VOCAB_SIZE,
    deep_model,
)

from simverify.drafting import layer_groups  # noqa: E402
from simverify.drafting.easyspec import layer_similarities  # noqa: E402
from simverify.errors import UsageError  # noqa: E402

IDS = torch.randint(VOCAB_SIZE, (2, 11), generator=torch.Generator().manual_seed(4)).tolist()
KINDS = pytest.mark.parametrize("kind", ["llama", "qwen2"])


class Recording(NaiveLlama):
    """Notes what each attention block reads and gives."""

    def __init__(self, model):
        super().__init__(model)
        self.seen = {}

    def attention(self, i, h, positions, visible):
        self.seen[i, "hidden"] = h
        x = self.norm(f"model.layers.{i}.input_layernorm", h)
        for part in "qkv":
            self.seen[i, part] = self.linear(f"model.layers.{i}.self_attn.{part}_proj", x)
        found = super().attention(i, h, positions, visible)
        self.seen[i, "attention"] = found
        return found


def naive_similarities(model, ids, groups, exact_tokens):
    alone, cosines = layer_groups(10, 1), {}
    for text in ids:
        passes = []
        for split in (alone, groups):
            naive = Recording(model)
            if exact_tokens:
                naive.feed(text[:exact_tokens], alone)
            naive.feed(text[exact_tokens:], split)
            passes.append(naive.seen)
        for key, exact in passes[0].items():
            fuzzy = passes[1][key]
            cosine = (exact * fuzzy).sum(-1) / (exact.norm(dim=-1) * fuzzy.norm(dim=-1))
            cosines.setdefault(key, []).extend(cosine.tolist())
    return {key: sum(own) / len(own) for key, own in cosines.items()}


@KINDS
@pytest.mark.parametrize(("wide", "exact_tokens"), [(2, 0), (4, 0), (4, 6)])
def test_similarities_are_the_naive_ones(kind, wide, exact_tokens):
    model = deep_model(kind)
    due = naive_similarities(model, IDS, layer_groups(10, wide), exact_tokens)
    found = layer_similarities(model, IDS, wide, exact_tokens=exact_tokens)
    assert [own.layer for own in found] == list(range(10))
    for own in found:
        for what in ("hidden", "attention", "q", "k", "v"):
            assert getattr(own, what) == pytest.approx(due[own.layer, what], abs=1e-6)
    assert min(own.attention for own in found) < 0.99  # there is something to tell


@KINDS
def test_groups_of_one_are_alike(kind):
    for own in layer_similarities(deep_model(kind), IDS, 1):
        found = own.hidden, own.attention, own.q, own.k, own.v
        assert found == pytest.approx((1, 1, 1, 1, 1), abs=1e-12)


def test_layers_before_the_second_of_a_group_are_exact():
    first, second, third, *_ = layer_similarities(deep_model(), IDS, 4)
    for own in (first, second):
        assert (own.hidden, own.k) == (pytest.approx(1), pytest.approx(1))
    assert third.hidden < 1 - 1e-4


def test_no_hook_stays():
    model = deep_model()
    layer_similarities(model, IDS, 4)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


@pytest.mark.parametrize(("ids", "exact_tokens"), [([[1, 2]], 2), ([[1, 2]], -1), ([1, 2], 0)])
def test_nothing_to_compare(ids, exact_tokens):
    with pytest.raises(UsageError, match="leave none to compare"):
        layer_similarities(deep_model(), ids, 4, exact_tokens=exact_tokens)

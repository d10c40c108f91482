"""Models whose layers make no groups are refused in one line, with the reason."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from support.real_models import deep_model  # noqa: E402

from simverify.drafting.fuzzy import (  # noqa: E402
    fuzzy_logits,
    group_layers,
)
from simverify.errors import UsageError  # noqa: E402

SMALL = {
    "vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32,
}  # fmt: skip


def made(kind, **config):
    config = transformers.AutoConfig.for_model(kind, **config)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def wrapped():
    model = copy.deepcopy(deep_model())
    model.model.forward = model.model.forward
    return model


def with_more_parts():
    model = copy.deepcopy(deep_model())
    model.model.layers[2].adapter = torch.nn.Linear(16, 16)
    return model


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (lambda: made("gpt2", vocab_size=12, n_embd=16, n_layer=4, n_head=2),
         "GPT2LMHeadModel is a model of type gpt2: layers run in groups in types llama and qwen2"),
        (lambda: made("mistral", **SMALL), "is a model of type mistral"),
        (lambda: torch.nn.Linear(2, 2), "Linear is a model of type None"),
        (lambda: made("qwen2", **SMALL, use_sliding_window=True, sliding_window=8,
                      max_window_layers=2), "has layers of sliding_attention"),
        (lambda: deep_model().model, "LlamaModel has no head or no list of layers"),
        (wrapped, "LlamaForCausalLM is wrapped"),
        (with_more_parts, "layer 2 of LlamaForCausalLM has the parts adapter, input_layernorm"),
    ],
)  # fmt: skip
def test_refused_with_the_reason(model, says):
    with pytest.raises(UsageError, match=says) as caught:
        group_layers(model(), 4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wide", [0, 1.5])
def test_groups_of_no_size(wide):
    with pytest.raises(UsageError, match="layer_parallel is"):
        fuzzy_logits(deep_model(), [[1, 2]], wide)


def test_ids_without_a_batch():
    with pytest.raises(UsageError, match=r"input_ids has the shape \(2,\): expected \(batch, n\)"):
        fuzzy_logits(deep_model(), [1, 2], 4)


def test_no_devices():
    with pytest.raises(UsageError, match="devices is empty"):
        group_layers(deep_model(), 4, devices=[])

"""Models whose rows would be wrong are refused when they are loaded."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from simverify.errors import UsageError  # noqa: E402
from simverify.models.real.cache_check import cache_iv, trees_iv  # noqa: E402

SMALL = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
GPT = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}


def made(kind, dtype=torch.float32, **config):
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **config)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    with torch.no_grad():
        for weights in model.parameters():
            # As spread as trained ones: at the usual start attention is next to even.
            if weights.dim() > 1:
                weights.mul_(5.0)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("llama", SMALL | {"num_key_value_heads": 1}),
        ("gpt2", GPT),
        ("qwen2", SMALL | {"num_key_value_heads": 2, "sliding_window": 8}),  # which it may not use
        ("mistral", SMALL | {"num_key_value_heads": 2, "sliding_window": None}),
        ("opt", SMALL | {"ffn_dim": 32, "word_embed_proj_dim": 16}),
        ("gpt_neox", SMALL),
        ("bloom", {"vocab_size": 50, "hidden_size": 16, "n_layer": 2, "n_head": 2}),
    ],
)
def test_full_causal_attention_is_taken(kind, config, dtype):
    model = made(kind, dtype, **config)
    cache_iv(model, kind)
    if kind == "bloom":  # its positions are in the mask of two axes, which it builds itself
        with pytest.raises(UsageError, match="take a single draft"):
            trees_iv(model, kind)
    else:
        trees_iv(model, kind)


@pytest.mark.parametrize(
    ("kind", "config", "says"),
    [
        ("mistral", SMALL | {"num_key_value_heads": 2, "sliding_window": 4096},
         "a sliding window of 4096"),
        ("gpt_neo", SMALL | {"num_layers": 2, "num_heads": 2,
                             "attention_types": [[["global", "local"], 1]]}, "local attention"),
        ("bert", SMALL | {"is_decoder": False}, "gives other logits|does not decode"),
        ("mpt", {"vocab_size": 50, "d_model": 16, "n_layers": 2, "n_heads": 2},
         r"gives other logits|does not decode"),
        ("rwkv", {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2},
         r"gives other logits|does not decode"),
    ],
)  # fmt: skip
def test_others_are_refused(kind, config, says):
    with pytest.raises(UsageError, match=says):
        cache_iv(made(kind, **config), kind)


@pytest.mark.parametrize("kind", ["mistral", "gpt_neo"])
def test_a_window_is_also_seen_in_what_it_does(kind, monkeypatch):
    """The second line of defence, for configs with other words."""
    monkeypatch.setattr("simverify.models.real.cache_check._window", lambda config: None)
    config = {
        "mistral": SMALL | {"num_key_value_heads": 2, "sliding_window": 6},
        "gpt_neo": SMALL | {"num_layers": 2, "num_heads": 2, "window_size": 6,
                            "attention_types": [[["global", "local"], 1]]},
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"gives other logits|does not decode"):
        cache_iv(made(kind, **config[kind]), kind)

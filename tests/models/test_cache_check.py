"""Models whose rows would be wrong are refused when they are loaded."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from support.small_models import (  # noqa: E402
    SEVERAL,
    SMALL,
    WHOLE,
    made,
)

from simverify.errors import UsageError  # noqa: E402
from simverify.models import kv_cache  # noqa: E402
from simverify.models.kv_cache import (  # noqa: E402
    check_causal,
    check_tree_attention,
    consistent_length,
    supports_rollback,
)

GPT = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
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
    check_causal(model, kind)
    assert supports_rollback(model)
    assert consistent_length(model) is None
    if kind == "bloom":  # its positions are in the mask of two axes, which it builds itself
        with pytest.raises(UsageError, match="take a single draft"):
            check_tree_attention(model, kind)
    else:
        check_tree_attention(model, kind)


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_windows_states_and_chunks_are_scored_whole(kind, dtype, monkeypatch):
    model = made(kind, dtype, **WHOLE[kind])
    check_causal(model, kind)
    assert not supports_rollback(model)
    # The second line of defence, for configs with other words.
    monkeypatch.setattr(kv_cache, "window_words", lambda _model: None)
    assert not supports_rollback(model)


def test_a_window_longer_than_what_is_tried_is_in_the_config():
    assert not supports_rollback(made("mistral", **SEVERAL | {"sliding_window": 4096}))
    assert supports_rollback(made("mistral", **SEVERAL | {"sliding_window": None}))


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_of_the_whole_batch_are_seen(dtype):
    """MPT counts them from the end of the cache."""
    model = made("mpt", dtype, vocab_size=50, d_model=16, n_layers=2, n_heads=2)
    check_causal(model, "mpt")
    assert not supports_rollback(model)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spread", [1.0, 5.0])
@pytest.mark.parametrize("kind", ["bert", "roberta", "electra"])
def test_attention_to_later_tokens_is_refused(kind, spread, dtype):
    model = made(kind, dtype, spread=spread, **SMALL, is_decoder=False)
    with pytest.raises(UsageError, match=r"when later ones are others, off by .* a causal model"):
        check_causal(model, kind)


def test_what_overflows_is_told():
    with pytest.raises(UsageError, match="no numbers in float16: take --dtype bfloat16"):
        check_causal(made("mamba", torch.float16, **WHOLE["mamba"]), "mamba")


def scaled(kind, **rope):
    return made(
        kind, **SEVERAL, rope_parameters={"rope_theta": 1e4} | rope, bos_token_id=1, eos_token_id=1,
        original_max_position_embeddings=32,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_angles_that_change_with_the_length_are_found_by_trying(dtype):
    long = {"rope_type": "longrope", "short_factor": [1.0] * 4}
    changing = scaled("phi3", **long, long_factor=[4.0] * 4).to(dtype)
    check_causal(changing, "phi3")
    assert consistent_length(changing) == 32
    assert consistent_length(scaled("phi3", **long, long_factor=[1.0] * 4).to(dtype)) is None
    assert consistent_length(scaled("llama", rope_type="yarn", factor=4.0).to(dtype)) is None

"""Models of Transformers' classes, small and drawn at random."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
GPT = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}


def made(kind, dtype=torch.float32, *, spread=5.0, **config):
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **config)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    with torch.no_grad():
        for weights in model.parameters():
            # As spread as trained ones: at the usual start attention is next to even.
            if weights.dim() > 1:
                weights.mul_(spread)
    return model


SEVERAL = SMALL | {"num_key_value_heads": 1, "head_dim": 8}

WHOLE = {
    "mistral": SEVERAL | {"sliding_window": 6},
    "gemma2": SEVERAL | {"sliding_window": 6},
    "gemma3_text": SEVERAL | {"sliding_window": 6},
    "gpt_oss": SEVERAL | {"sliding_window": 6, "num_local_experts": 4, "num_experts_per_tok": 2},
    "llama4_text": SEVERAL | {"attention_chunk_size": 6, "num_local_experts": 2,
                              "intermediate_size_mlp": 32},
    "mamba": {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    "jamba": SEVERAL | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2,
                        "expert_layer_period": 2, "use_mamba_kernels": False, "mamba_d_state": 4},
    "qwen3_next": SEVERAL | {"num_experts": 4, "num_experts_per_tok": 2,
                             "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
                             "linear_num_key_heads": 2, "linear_num_value_heads": 2,
                             "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                             "layer_types": ["linear_attention", "full_attention"]},
    "gpt_neo": SMALL | {"num_layers": 2, "num_heads": 2, "window_size": 6,
                        "attention_types": [[["global", "local"], 1]]},
    "rwkv": {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2},
}  # fmt: skip
"""Models with windows, states and chunks."""

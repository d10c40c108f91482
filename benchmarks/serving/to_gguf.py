"""Write a folder of a Llama, such as the bundled target, as a GGUF file for llama.cpp.

    pip install gguf==0.19.0
    python benchmarks/serving/to_gguf.py TARGET target-F32.gguf
    python benchmarks/serving/to_gguf.py TARGET target-Q4_0.gguf --type Q4_0

The folder has config.json, model.safetensors and tokenizer.json. Norms stay in float32. The head
is that of the embeddings, and token 0 begins and ends texts, as in the bundled models.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names in GGUF, and in Transformers."""


def rotated(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Put the rows of each head in llama.cpp's order: its angles turn neighbours, not halves."""
    halves = matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
    return halves.swapaxes(1, 2).reshape(matrix.shape)


def add(writer: Any, name: str, array: np.ndarray, kind: str) -> None:
    """Add a tensor: vectors in float32, matrices as ``kind`` says."""
    array = np.ascontiguousarray(array, np.float32)
    if array.ndim == 1 or kind == "F32":
        writer.add_tensor(name, array)
    elif kind == "F16":
        writer.add_tensor(name, array.astype(np.float16))
    else:
        number = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quants.quantize(array, number), raw_dtype=number)


def add_settings(writer: Any, config: dict[str, Any], name: str) -> None:
    """Add the shape of the model."""
    writer.add_name(name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])


def add_tokenizer(writer: Any, tokenizer: dict[str, Any]) -> None:
    """Add a tokenizer of byte pairs, whose token 0 is special."""
    model = tokenizer["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(words) - 1))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)


def main() -> None:
    """Read the folder and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", default="F32", choices=("F32", "F16", "Q4_0", "Q8_0"))
    parser.add_argument("--chat-template", type=Path, help="a Jinja file for conversations")
    own = parser.parse_args()
    config = json.loads((own.folder / "config.json").read_text())
    weights = load_file(own.folder / "model.safetensors")
    writer = gguf.GGUFWriter(own.out, "llama")
    add_settings(writer, config, own.folder.name)
    add_tokenizer(writer, json.loads((own.folder / "tokenizer.json").read_text()))
    if own.chat_template:
        writer.add_chat_template(own.chat_template.read_text())
    add(writer, "token_embd.weight", weights["model.embed_tokens.weight"], own.type)
    add(writer, "output_norm.weight", weights["model.norm.weight"], own.type)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for layer in range(config["num_hidden_layers"]):
        for name, module in LAYER.items():
            array = weights[f"model.layers.{layer}.{module}.weight"]
            if name in heads:
                array = rotated(array, heads[name])
            add(writer, f"blk.{layer}.{name}.weight", array, own.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

"""The bundled pair in the formats of engines, so that anybody can judge an engine in a minute.

Transformers' folders are copied and GGUF is written here; for the other formats the engine's own
converter runs.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simverify.errors import SimverifyError, UsageError
from simverify.models.tiny_llama import BUNDLED

PARTS = ("target", "draft")
"""What a written pair consists of."""

_LAYER = {
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


def write_hf(part: str, out: Path) -> None:
    """Write a folder that Transformers loads, and engines that read ``rope_theta`` where it was."""
    out.mkdir(parents=True, exist_ok=True)
    for folder in (BUNDLED / part, BUNDLED / "tokenizer"):
        for file in sorted(folder.iterdir()):
            shutil.copyfile(file, out / file.name)
    config = json.loads((out / "config.json").read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


# GGUF.


def write_gguf(
    folder: Path, out: Path, kind: str = "F32", chat_template: str | None = None
) -> None:
    """Write a Transformers folder of a Llama, such as the bundled ones, as a GGUF file.

    Norms stay in float32. The head is that of the embeddings, and token 0 begins and ends texts, as
    in the bundled models. ``kind``: the type of the matrices, such as F16 or Q4_0.
    """
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name(folder.name)
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
    _add_tokenizer(writer, json.loads((folder / "tokenizer.json").read_text()), gguf.TokenType)
    if chat_template is not None:
        writer.add_chat_template(chat_template)

    def add(name: str, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array, np.float32)
        if array.ndim == 1 or kind == "F32":
            writer.add_tensor(name, array)
        elif kind == "F16":
            writer.add_tensor(name, array.astype(np.float16))
        else:
            number = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(name, gguf.quants.quantize(array, number), raw_dtype=number)

    add("token_embd.weight", weights["model.embed_tokens.weight"])
    add("output_norm.weight", weights["model.norm.weight"])
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for layer in range(config["num_hidden_layers"]):
        for name, module in _LAYER.items():
            array = weights[f"model.layers.{layer}.{module}.weight"]
            rows = _interleaved(array, heads[name]) if name in heads else array
            add(f"blk.{layer}.{name}.weight", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, tokenizer: dict[str, Any], types: Any) -> None:
    """Add a tokenizer of byte pairs, whose token 0 is special."""
    model = tokenizer["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([types.CONTROL] + [types.NORMAL] * (len(words) - 1))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)


def _interleaved(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Put the rows of each head in llama.cpp's order: its angles turn neighbours, not halves."""
    halves = matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
    return halves.swapaxes(1, 2).reshape(matrix.shape)


# Formats that an engine's own converter writes.


def _run(*words: str | Path) -> None:
    """Run a converter; ``SimverifyError`` with its last line if it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise SimverifyError(f"{Path(words[0]).name} failed: {lines[-1].strip()}")


def _script(name: str) -> Path:
    """Return a script of this environment."""
    return Path(sys.executable).parent / name


def _write_gguf_file(folder: Path, out: Path) -> None:
    write_gguf(folder, out)


def _write_openvino(folder: Path, out: Path) -> None:
    kind = ("--task", "text-generation-with-past", "--weight-format", "fp32")
    _run(_script("optimum-cli"), "export", "openvino", "-m", folder, *kind, out)


def _write_ort(folder: Path, out: Path) -> None:
    builder = (sys.executable, "-m", "onnxruntime_genai.models.builder")
    with_cache = out.parent / f".{out.name}-cache"
    _run(*builder, "-i", folder, "-o", out, "-p", "fp32", "-e", "cpu", "-c", with_cache)
    shutil.rmtree(with_cache, ignore_errors=True)


def _write_ctranslate2(folder: Path, out: Path) -> None:
    _run(_script("ct2-transformers-converter"), "--model", folder, "--output_dir", out)


def _write_mlx(folder: Path, out: Path) -> None:
    _run(_script("mlx_lm.convert"), "--hf-path", folder, "--mlx-path", out, "--dtype", "float32")


class _Format(NamedTuple):
    """How a model is written: what must be installed, its modules, and from a Transformers folder.

    ``suffix``: of a file, which the format is.
    """

    install: str
    modules: tuple[str, ...]
    write: Callable[[Path, Path], None] | None
    suffix: str = ""


FORMATS: dict[str, _Format] = {
    "hf": _Format("", (), None),
    "gguf": _Format("gguf safetensors", ("gguf", "safetensors"), _write_gguf_file, ".gguf"),
    "openvino": _Format(
        "'optimum-intel[openvino]' openvino-tokenizers",
        ("optimum.intel", "openvino_tokenizers"),
        _write_openvino,
    ),
    "ort": _Format(
        "onnxruntime-genai onnx onnx-ir torch transformers",
        ("onnxruntime_genai", "onnx_ir", "torch", "transformers"),
        _write_ort,
    ),
    "ctranslate2": _Format(
        "ctranslate2 torch transformers",
        ("ctranslate2", "torch", "transformers"),
        _write_ctranslate2,
    ),
    "mlx": _Format("mlx-lm", ("mlx_lm",), _write_mlx),
}


def _is_missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True


def write_pair(folder: Path, name: str) -> dict[str, Path]:
    """Write target and draft of the bundled pair; return where each is.

    Raises
    ------
    UsageError
        The format needs a package that is not installed, or the folder holds something else.
    SimverifyError
        The converter failed.
    """
    known = FORMATS[name]
    missing = [module for module in known.modules if _is_missing(module)]
    if missing:
        raise UsageError(
            f"format {name} needs {missing[0]}, which is not installed: pip install {known.install}"
        )
    made = {part: folder / f"{part}{known.suffix}" for part in PARTS}
    for place in made.values():
        if place.exists():
            raise UsageError(f"{place} exists: name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    for part, place in made.items():
        if known.write is None:
            write_hf(part, place)
            continue
        source = folder / f".{part}-hf" / part
        try:
            write_hf(part, source)
            known.write(source, place)
        finally:
            shutil.rmtree(source.parent, ignore_errors=True)
    return made

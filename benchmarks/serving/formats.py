"""Write the bundled pair in a format, load it by its engine, and compare the logits with ours.

    python benchmarks/serving/formats.py openvino     # hf, openvino, ort, ctranslate2 or mlx

It prints the largest difference over the last positions of eight prompts. GGUF has no engine here
whose Python API gives logits; `simverify audit node-llama-cpp` judges it by its tokens.
"""

import argparse
import importlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from simverify.models.tiny_llama import BUNDLED
from simverify.models.writing import write_pair

Logits = Callable[[list[int]], np.ndarray]
"""Returns the logits float32 (V,) after some ids."""


def of_hf(folder: Path) -> Logits:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def logits(ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(model(torch.tensor([ids])).logits[0, -1])

    return logits


def of_openvino(folder: Path) -> Logits:
    core = importlib.import_module("openvino").Core()
    precision = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    model = core.compile_model(str(folder / "openvino_model.xml"), "CPU", precision)

    def logits(ids: list[int]) -> np.ndarray:
        request = model.create_infer_request()
        given = {
            "input_ids": np.array([ids]),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "position_ids": np.arange(len(ids))[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        return np.asarray(request.infer(given)["logits"])[0, -1]

    return logits


def of_ort(folder: Path) -> Logits:
    genai = importlib.import_module("onnxruntime_genai")
    model = genai.Model(str(folder))

    def logits(ids: list[int]) -> np.ndarray:
        options = genai.GeneratorParams(model)
        options.set_search_options(max_length=len(ids) + 1)
        generator = genai.Generator(model, options)
        generator.append_tokens(ids)
        return np.asarray(generator.get_logits()).reshape(-1)

    return logits


def of_ctranslate2(folder: Path) -> Logits:
    library = importlib.import_module("ctranslate2")
    generator = library.Generator(str(folder), compute_type="float32")
    words = json.loads((folder / "vocabulary.json").read_text())

    def logits(ids: list[int]) -> np.ndarray:
        return np.array(generator.forward_batch([[words[i] for i in ids]]))[0, -1]

    return logits


def of_mlx(folder: Path) -> Logits:
    mx = importlib.import_module("mlx.core")
    model, _tokenizer = importlib.import_module("mlx_lm").load(str(folder))

    def logits(ids: list[int]) -> np.ndarray:
        return np.array(model(mx.array([ids]))[0, -1].astype(mx.float32))

    return logits


LOADERS: dict[str, Callable[[Path], Logits]] = {
    "hf": of_hf,
    "openvino": of_openvino,
    "ort": of_ort,
    "ctranslate2": of_ctranslate2,
    "mlx": of_mlx,
}


def main() -> None:
    """Compare the logits of both models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("format", choices=LOADERS)
    name = parser.parse_args().format
    tokenizer = Tokenizer.from_file(str(BUNDLED / "tokenizer" / "tokenizer.json"))
    lines: list[Any] = (BUNDLED / "prompts.jsonl").read_text().splitlines()[:8]
    prompts = [tokenizer.encode(json.loads(line)["prompt"]).ids for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        for part, place in write_pair(Path(folder) / "pair", name).items():
            ours, theirs = of_hf(BUNDLED / part), LOADERS[name](place)
            off = max(float(np.abs(ours(ids) - theirs(ids)).max()) for ids in prompts)
            print(f"{name}, {part}: logits differ by {off:.1e} at most")


if __name__ == "__main__":
    main()

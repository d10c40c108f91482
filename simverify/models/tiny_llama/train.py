"""Train the bundled models on the text that every Python installation carries.

    python -m simverify.models.tiny_llama.train FOLDER

writes a tokenizer, a target and two drafts (float16 safetensors) and prompts, and prints what
the model card holds. A model a process and a thread each, it takes an hour or two on two cores;
another Python has another text, so the files that ship come from one run.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from simverify.models.ngram import Bytes, corpus_text, split_corpus

VOCAB_SIZE, CONTEXT, TRAINED_CONTEXT, BATCH, SEED = 1024, 512, 256, 32, 0
PROMPT_COUNT, PROMPT_BYTES = 48, 200
END_TOKEN = "<|end|>"

Ids = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Recipe:
    """Shape of a Llama model, the tokens it is trained on, and the peak of its learning rate."""

    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    tokens: int
    rate: float


RECIPES = {
    "target": Recipe(192, 6, 6, 512, 7_000_000, 2e-3),
    "draft": Recipe(128, 1, 4, 320, 6_000_000, 3e-3),
    "draft-deep": Recipe(128, 12, 4, 320, 7_000_000, 2e-3),
}


def make_tokenizer(text: str, folder: Path) -> Tokenizer:
    """Train a byte-level BPE tokenizer and save it for Transformers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text[i : i + 4096] for i in range(0, len(text), 4096)], trainer)
    fast: Any = PreTrainedTokenizerFast  # which has no types
    fast(
        tokenizer_object=tokenizer,
        eos_token=END_TOKEN,
        bos_token=END_TOKEN,
        model_max_length=CONTEXT,
    ).save_pretrained(folder)
    return tokenizer


def encode_chunks(tokenizer: Tokenizer, chunks: Bytes) -> Ids:
    """Token ids of all chunks in a row, each after the token that ends a sequence."""
    texts = [bytes(chunk).decode("utf-8", "ignore") for chunk in chunks]
    parts = [np.array([0, *found.ids], np.int16) for found in tokenizer.encode_batch(texts)]
    return np.concatenate(parts)


def held_out_prompts(held_out: Bytes) -> Iterator[str]:
    """Yield beginnings of held-out chunks, from and to the end of a line."""
    for chunk in held_out[:: max(1, len(held_out) // 64)]:
        lines = bytes(chunk).decode("utf-8", "ignore").split("\n", 1)[-1][:PROMPT_BYTES]
        text = lines[: lines.rfind("\n") + 1] if "\n" in lines[60:] else lines
        if len(text.strip()) > 40:
            yield text


def train(recipe: Recipe, ids: Ids, name: str) -> Any:
    """Train a model: AdamW, cosine schedule, bfloat16 products, weights in float32."""
    torch.manual_seed(SEED)
    config: Any = LlamaConfig
    model: Any = LlamaForCausalLM(
        config(
            vocab_size=VOCAB_SIZE,
            hidden_size=recipe.hidden_size,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            intermediate_size=recipe.intermediate_size,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    model.train()
    rng = np.random.default_rng(SEED)
    steps = recipe.tokens // (BATCH * TRAINED_CONTEXT)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.95), fused=True)
    for step in range(steps):
        cosine = 0.05 + 0.475 * (1 + math.cos(math.pi * step / steps))
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * min(1.0, (step + 1) / 100) * cosine
        starts = rng.integers(0, len(ids) - TRAINED_CONTEXT - 1, BATCH)
        rows = np.stack([ids[s : s + TRAINED_CONTEXT + 1] for s in starts]).astype(np.int64)
        block = torch.from_numpy(rows)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(block[:, :-1], use_cache=False).logits
        loss: Any = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), block[:, 1:].flatten()
        )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 50 == 0:
            print(f"{name}: step {step} of {steps}, loss {loss.item():.3f}", flush=True)
    return model.eval()


@torch.no_grad()
def perplexity(model: Any, ids: Ids) -> float:
    """Perplexity per token over windows of 256 tokens."""
    windows = (len(ids) - 1) // TRAINED_CONTEXT
    total = 0.0
    for begin in range(0, windows, 16):
        some = range(begin, min(begin + 16, windows))
        rows = np.stack([ids[w * TRAINED_CONTEXT : (w + 1) * TRAINED_CONTEXT + 1] for w in some])
        block = torch.from_numpy(rows.astype(np.int64))
        logits = model(block[:, :-1]).logits.float()
        total += torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), block[:, 1:].flatten(), reduction="sum"
        ).item()
    return math.exp(total / (windows * TRAINED_CONTEXT))


def main() -> None:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(description="Train the bundled models.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(RECIPES), help="of target,draft,draft-deep")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    torch.set_num_threads(1)
    training, held_out = split_corpus(corpus_text())
    if (folder / "tokenizer").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    else:
        text = training.tobytes().decode("utf-8", "ignore")
        tokenizer = make_tokenizer(text, folder / "tokenizer")
    lines = [
        json.dumps({"prompt": text}) for text in list(held_out_prompts(held_out))[:PROMPT_COUNT]
    ]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
    ids, unseen = encode_chunks(tokenizer, training), encode_chunks(tokenizer, held_out)
    for name in arguments.only.split(","):
        # Measured on the weights as they are saved.
        model = train(RECIPES[name], ids, name).half().float()
        score = perplexity(model, unseen[: 200 * TRAINED_CONTEXT + 1])
        size = sum(p.numel() for p in model.parameters())
        print(f"{name}: {size} parameters, perplexity {score:.3f} a token", flush=True)
        model.half().save_pretrained(folder / name)


if __name__ == "__main__":
    main()

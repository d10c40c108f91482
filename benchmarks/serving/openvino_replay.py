"""Predict what OpenVINO GenAI answers with a draft, token by token, from its seed.

    pip install openvino-genai==2026.4.1.0 openvino-tokenizers==2026.4.1.0 optimum-intel torch
    simverify models --write pair --format openvino
    python benchmarks/serving/openvino_replay.py pair --seeds 60

The prediction is the catalogue's ``openvino-draft``, with draft and target drawing from generators
of the same seed, as the engine does: answers that are predicted whole prove that this is its rule.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from simverify.models.tiny_llama import BUNDLED
from simverify.served.engine_server import Question, Setup, openvino_genai

GAMMA, LENGTH = 4, 5
PROMPT = "def f(self, x):\n    return"


class Words:
    """Random words of std::mt19937, and what the engine makes of them."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed)._bit_generator

    def token(self, row: np.ndarray) -> int:
        """Draw a token by a uniform of float32, in the order of the vocabulary."""
        u = np.float32(self._next()) * np.float32(2.0**-32)
        return int(min(np.searchsorted(np.cumsum(row), u, side="right"), len(row) - 1))

    def coin(self) -> float:
        """Draw one of 0, .01, .. 1, as std::uniform_int_distribution does."""
        while True:
            product = self._next() * 101
            if product & 0xFFFFFFFF >= 2**32 % 101:
                return (product >> 32) / 100

    def _next(self) -> int:
        return int(self._words.random_raw()) & 0xFFFFFFFF


class Rows:
    """Rows of target and draft, each computed once."""

    def __init__(self) -> None:
        self._models = {
            name: AutoModelForCausalLM.from_pretrained(BUNDLED / name, dtype=torch.float32)
            for name in ("target", "draft")
        }
        self._known: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}

    def __call__(self, name: str, ids: tuple[int, ...]) -> np.ndarray:
        """Return the row float64 (V,) after ``ids``."""
        if (name, ids) not in self._known:
            with torch.no_grad():
                logits = self._models[name](torch.tensor([ids])).logits[0, -1].double()
            self._known[name, ids] = logits.softmax(-1).numpy()
        return self._known[name, ids]


def predicted(seed: int, start: tuple[int, ...], rows: Rows) -> list[int]:
    """Return the first tokens of an answer."""
    target, draft = Words(seed), Words(seed)
    out = [target.token(rows("target", start))]
    while len(out) < LENGTH:
        ids, drafted = start + tuple(out), ()
        for _ in range(GAMMA):
            drafted = (*drafted, draft.token(rows("draft", ids + drafted)))
        for i, x in enumerate(drafted):
            before = ids + drafted[:i]
            y = target.token(rows("target", before))
            ratio = rows("draft", before)[x] / rows("target", before)[y]
            if not target.coin() <= ratio:
                out += [*drafted[:i], target.token(rows("target", (*before, x)))]
                break
        else:
            out += [*drafted, target.token(rows("target", ids + drafted))]
    return out[:LENGTH]


def main() -> None:
    """Compare the engine's answers with the predictions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--seeds", type=int, default=60)
    given = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(BUNDLED / "tokenizer" / "tokenizer.json"))
    start = tuple(tokenizer.encode(PROMPT).ids)
    answer = openvino_genai(Setup(given.pair / "target", given.pair / "draft", GAMMA, False))
    rows, alike = Rows(), Counter[int]()
    for seed in range(given.seeds):
        real = answer(Question(list(start), 24, seed=seed))[:LENGTH]
        made = predicted(seed, start, rows)
        alike[next((i for i in range(LENGTH) if real[i : i + 1] != made[i : i + 1]), LENGTH)] += 1
    whole = alike.pop(LENGTH, 0)
    print(f"{whole} of {given.seeds} answers predicted in all of their first {LENGTH} tokens")
    for length, count in sorted(alike.items()):
        print(f"{count} of them up to token {length}")


if __name__ == "__main__":
    main()

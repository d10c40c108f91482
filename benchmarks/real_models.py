"""Block efficiency on the bundled pair, over draft lengths, temperatures and drafts.

``python benchmarks/real_models.py`` takes ten to fifteen minutes of one processor; ``--quick``
takes a minute and shows only that everything runs. In kind, tables 1, 2 and 4 and figures 4
and 5 of Sun et al. 2025, with small models in the place of PALM-2. See ``benchmarks/README.md``.
"""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measure import machine
from rich.console import Console

from simverify.models.transformer import BUNDLED, Sampling, TransformerPair, load_pair, read_prompts
from simverify.simulators.decoding.loop import (
    RULES,
    Block,
    Interval,
    Job,
    LaneStatistics,
    block_curves,
    decode,
    verifier_factory,
)
from simverify.verifiers import get_verifier

GAMMAS = (2, 4, 6, 8)
TEMPERATURES = (0.5, 0.8, 1.0)
DRAFTS = {
    "tiny-llama": "one layer",
    "tiny-llama-deep": "twelve layers",
    "target": "the target at 1.5 times the temperature",
}
VERIFIERS = ("token", "block", "greedy")
WARMER = 1.5
LANES = 48
SEED = 20250424
CONFIDENCE = 0.95
RESULTS = Path(__file__).parent / "results" / "real_models.json"


@dataclass(frozen=True)
class Mean:
    """A mean with its interval at :data:`CONFIDENCE`, by Student's t over lanes."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """One draft at one length and temperature.

    ``efficiency``: tokens per target call of each verifier over whole generations. ``gain``:
    block's less token's, on the blocks that token's run drafted (Rao-Blackwell). ``accepted``:
    Pr(tau >= l) of each rule on those blocks, l = 1..gamma; greedy's is its first call's.
    ``seconds``: of each phase, a target call.
    """

    draft: str
    gamma: int
    temperature: float
    blocks: int
    efficiency: dict[str, Mean]
    gain: Mean
    accepted: dict[str, list[float]]
    seconds: dict[str, float]


class Warmer:
    """A model whose logits are those of another at :data:`WARMER` times the temperature."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.device, self.config = model.device, model.config
        self.base_model = model.base_model

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        found = self._model(*arguments, **options)
        found.logits = found.logits / WARMER
        return found


class Worth:
    """Observer of a run: tokens of every call, and what each drafted block is worth to a rule."""

    def __init__(self, job: Job) -> None:
        self._size = len(RULES) * job.gamma
        self._means = LaneStatistics(job.lanes, self._size + 1)

    def __call__(self, block: Block) -> None:
        self._means.add(block.lane, [*block_curves(block).ravel(), block.tau + 1.0])

    @property
    def blocks(self) -> int:
        return self._means.blocks

    def efficiency(self) -> Mean:
        """Tokens a call."""
        return self._mean([0.0] * self._size + [1.0])

    def gain(self) -> Mean:
        """E[tau] of block less token's on these blocks."""
        signs = {"token": -1.0, "block": 1.0}
        each = self._size // len(RULES)
        return self._mean([signs.get(rule, 0.0) for rule in RULES for _ in range(each)] + [0.0])

    def accepted(self) -> dict[str, list[float]]:
        """Pr(tau >= l) of each rule, l = 1..gamma."""
        rows = self._means.means[:-1].reshape(len(RULES), -1)
        return {rule: row.tolist() for rule, row in zip(RULES, rows, strict=True)}

    def _mean(self, weights: list[float]) -> Mean:
        found: Interval = self._means.interval(weights, CONFIDENCE)
        return Mean(found.mean, found.low, found.high)


def main() -> None:
    """Decode every cell, print and write."""
    parser = argparse.ArgumentParser(description="Block efficiency on the bundled pair.")
    parser.add_argument("--quick", action="store_true", help="a minute: shows that it runs")
    parser.add_argument("--tokens", type=int, default=4800, help="emitted tokens a run")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/real_models.json, or none"
    )
    options = parser.parse_args()
    path = options.json or (None if options.quick else RESULTS)
    torch.set_num_threads(1)
    tokens = 64 if options.quick else options.tokens
    console = Console(stderr=True)
    cells = []
    for draft in ["tiny-llama"] if options.quick else DRAFTS:
        for temperature in TEMPERATURES[-1:] if options.quick else TEMPERATURES:
            pair = load(draft, temperature)
            for gamma in GAMMAS[:1] if options.quick else GAMMAS:
                cells.append(measured(pair, draft, gamma, temperature, tokens))
                console.print(f"{draft}, temperature {temperature}, gamma {gamma}")
    document = {
        "seed": SEED, "quick": options.quick, "tokens": tokens, "confidence": CONFIDENCE,
        "drafts": DRAFTS, "machine": machine(), "cells": [asdict(cell) for cell in cells],
    }  # fmt: skip
    print_table(cells)
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load(draft: str, temperature: float) -> TransformerPair:
    """Return the bundled target with a draft of :data:`DRAFTS`."""
    name = "tiny-llama" if draft == "target" else draft
    pair = load_pair("tiny-llama", name, sampling=Sampling(temperature))
    if draft == "target":
        pair = replace(pair, draft_model=Warmer(pair.target_model))
    return pair


def measured(
    pair: TransformerPair, draft: str, gamma: int, temperature: float, tokens: int
) -> Cell:
    """Decode with every verifier; blocks and times are those of token verification."""
    texts = read_prompts(BUNDLED / "prompts.jsonl")
    prompts = tuple(tuple(pair.encode(text)) for text in texts)
    lanes = min(LANES, tokens // 4)
    job = Job(
        prompts=prompts, gamma=gamma, lanes=lanes, lane_tokens=-(-tokens // lanes),
        request_tokens=128, seed=SEED,
    )  # fmt: skip
    seen, clocks = {}, {}
    for rule in VERIFIERS:
        seen[rule] = Worth(job)
        clocks[rule] = decode(pair, job, verifier_factory(get_verifier(rule)), seen[rule])
    drafted, clock = seen["token"], clocks["token"]
    phases = {"draft": clock.draft, "score": clock.score, "verify": clock.verify}
    return Cell(
        draft=draft, gamma=gamma, temperature=temperature, blocks=drafted.blocks,
        efficiency={rule: worth.efficiency() for rule, worth in seen.items()},
        gain=drafted.gain(), accepted=drafted.accepted(),
        seconds={name: seconds / clock.calls for name, seconds in phases.items()},
    )  # fmt: skip


def print_table(cells: list[Cell]) -> None:
    """Print a Markdown row for each cell."""
    print("| draft | temperature | gamma | token | block | greedy | block less token, paired |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for cell in cells:
        each = " | ".join(
            f"{found.mean:.2f} ±{(found.high - found.low) / 2:.2f}"
            for found in (cell.efficiency[rule] for rule in VERIFIERS)
        )
        gain = f"{cell.gain.mean:+.3f} ±{(cell.gain.high - cell.gain.low) / 2:.3f}"
        print(f"| {cell.draft} | {cell.temperature} | {cell.gamma} | {each} | {gain} |")


if __name__ == "__main__":
    main()

"""Drafts by layers in groups on the bundled pair: what they lose, and what a pass takes.

``python benchmarks/easyspec.py`` takes ten minutes of one processor; ``--quick`` takes seconds and
shows only that everything runs. In kind, figure 4 and the times of Wu et al., "EasySpec", with a
little model in the place of a large one. See ``benchmarks/README.md``.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import torch
from measure import machine
from rich.console import Console

from simverify.comparing.real import compare_layer_groups
from simverify.drafting.easyspec import measure_blocks
from simverify.drafting.time_model import fit_time_model, predict_drafting
from simverify.models.transformer import BUNDLED, TransformerPair, load_pair, read_prompts
from simverify.simulators.decoding.job import make_job

NUMBERS = (2, 4, 6)
GAMMA, LANES, CONTEXT, SEED = 5, 48, 100, 20250424
TOKENS = 16_000
RESULTS = Path(__file__).parent / "results" / "easyspec.json"


def losses(
    pair: TransformerPair, numbers: Sequence[int], tokens: int, console: Console
) -> list[dict[str, Any]]:
    """Return similarities and acceptance of single drafts for every number of layers a group."""
    job = make_job(
        pair, read_prompts(BUNDLED / "prompts.jsonl"), gamma=GAMMA, tokens=tokens, lanes=LANES,
        seed=SEED,
    )  # fmt: skip
    found = compare_layer_groups(pair, job, numbers, tokens=tokens, widths=(1,), say=console.print)
    return [msgspec.to_builtins(entry) for entry in found]


def passes(pair: TransformerPair, numbers: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Return medians of single steps in seconds on one thread and on two, and what they predict."""
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for number in numbers:
            times = measure_blocks(
                pair.draft_model, number, lanes=LANES, context=CONTEXT, repeats=repeats
            )
            on = [
                msgspec.to_builtins(one) for one in predict_drafting(fit_time_model(times), GAMMA)
            ]
            found.append({"threads": threads, **asdict(times), "predicted": on})
    return found


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="show that everything runs")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--passes", action="store_true", help="time the passes alone, anew")
    given, console = parser.parse_args(), Console()
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", "tiny-llama-deep")
    path: Path = given.json
    result = json.loads(path.read_text()) if given.passes else {}
    numbers, tokens, repeats = ((4,), 96, 3) if given.quick else (NUMBERS, TOKENS, 60)
    if not given.passes:
        result["losses"] = losses(pair, numbers, tokens, console)
    result |= {"passes": passes(pair, numbers, repeats), "machine": machine()}
    for entry in result["losses"]:
        for own in entry["acceptance"]:
            if loss := own["loss"]:
                console.print(
                    f"N = {entry['layer_parallel']}, calibration {own['calibration']}: loss "
                    f"{loss['mean']:.1%} ({loss['ci_low']:.1%} to {loss['ci_high']:.1%})"
                )
    for one in result["passes"]:
        console.print(
            f"N = {one['layer_parallel']}, {one['threads']} threads: exact "
            f"{one['exact_pass'] * 1e3:.1f} ms, fuzzy {one['fuzzy_pass'] * 1e3:.1f} ms"
        )
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

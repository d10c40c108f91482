"""Side-by-side speed: the compiled kernels against numpy and torch, in one run.

``python benchmarks/compare_speed.py`` takes about two minutes; ``--quick`` takes seconds and
shows only that everything runs. See ``benchmarks/README.md``.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from cases import numpy_cases, our_cases, torch_cases
from checks import check_references
from measure import machine, rates, ratio, spread
from references import BATCHES
from rich.console import Console
from rich.table import Table
from row_step import VOCABULARIES, time_steps

from simverify.models import MarkovModel, get_model
from simverify.simulators.exact.bounds import tree_bounds

GAMMA = 8
SEED = 20250424
MODEL = "markov-64"

GOALS = {
    ("numpy", "token"): 500,
    ("numpy", "block"): 600,
    ("torch", "token"): 120,
    ("torch", "block"): 120,
}
"""Least ratio of our counted kernels to each reference, one core each, on ``MODEL``."""

RESULTS = Path(__file__).parent / "results" / "compare_speed.json"


def main() -> None:
    """Check, measure, print and write."""
    parser = argparse.ArgumentParser(description="Speed of simverify's kernels side by side.")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/compare_speed.json, or none"
    )
    options = parser.parse_args()
    path = options.json or (None if options.quick else RESULTS)
    torch.set_num_threads(1)
    document = {
        "gamma": GAMMA,
        "seed": SEED,
        "quick": options.quick,
        "machine": machine(),
        "checks": checked(options.quick),
        **compared(options.quick),
        "bounds": [timed_bounds(rule, options.quick) for rule in ("block", "greedy")],
        "steps": timed_steps(options.quick),
    }
    show(document)
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n")


def checked(quick: bool) -> list[dict[str, Any]]:
    """Check the references; where the rules lie far apart few blocks tell them apart."""
    say("checking the references")
    found = check_references(markov("toy"), GAMMA, 2_000, 1_000, SEED)
    if not quick:
        found += check_references(markov(MODEL), GAMMA, 20_000, 1_000, SEED)
    return found


def compared(quick: bool) -> dict[str, Any]:
    """Rates of all cases, and the ratios to the references."""
    model = markov(MODEL)
    scale, repetitions, batches = (100, 2, BATCHES[:1]) if quick else (1, 5, BATCHES)
    cases = [
        *our_cases(model, ("token", "block", "greedy", "match"), GAMMA, 2_000_000 // scale, SEED),
        *numpy_cases(model, GAMMA, 2_000 // scale, SEED),
        *torch_cases(model, GAMMA, batches, 20_000 // scale, SEED),
    ]
    if not quick:
        cases += our_cases(markov("markov-1024"), ("token", "block"), GAMMA, 1_000_000, SEED)
        cases += our_cases(get_model("ngram"), ("token", "block"), GAMMA, 300_000, SEED)
    say(f"timing {len(cases)} cases, {repetitions} times in turn")
    found = rates(cases, repetitions)
    ratios = []
    for (library, rule), goal in GOALS.items():
        name = f"{library} {rule}"
        if library == "torch":
            names = [f"{name} B = {batch}" for batch in batches]
            name = max(names, key=lambda name: spread(found[name]).median)
        ours = f"{MODEL} {rule} counted, 1 thread"
        ratios.append(
            {
                "ours": ours,
                "reference": name,
                "goal": goal,
                **asdict(ratio(found[ours], found[name])),
            }
        )
    speeds = [
        {
            "name": case.name,
            "model": case.model,
            "rule": case.rule,
            "threads": case.threads,
            "blocks": case.blocks,
            **asdict(spread(found[case.name])),
        }
        for case in cases
    ]
    return {"repetitions": repetitions, "speeds": speeds, "ratios": ratios}


def timed_bounds(rule: Any, quick: bool) -> dict[str, Any]:
    """Time the certified bounds on E[tau], on a coarse grid if ``quick``."""
    say(f"certified bounds of {rule}")
    model = markov(MODEL)
    bins = 64 if quick else None
    tree_bounds(model, GAMMA, rule, bins=64)  # compiles
    clock = time.perf_counter()
    bounds = tree_bounds(model, GAMMA, rule, bins=bins)
    seconds = time.perf_counter() - clock
    return {
        "model": MODEL,
        "rule": rule,
        "bins": bounds.bins,
        "lower": bounds.expected_lower,
        "upper": bounds.expected_upper,
        "width": bounds.expected_upper - bounds.expected_lower,
        "seconds": seconds,
    }


def timed_steps(quick: bool) -> list[dict[str, Any]]:
    """Time the sublinear step and the plain one at each vocabulary size."""
    say("the sublinear step")
    found = []
    for size in VOCABULARIES:
        sublinear, rows = time_steps(size, 1_000 if quick else 100_000, 2 if quick else 5)
        found.append(
            {
                "vocab_size": size,
                "sublinear_ns": asdict(spread(sublinear)),
                "rows_ns": asdict(spread(rows)),
                "gain": asdict(ratio(rows, sublinear)),
            }
        )
    return found


def show(document: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console(width=80, highlight=False, markup=False)
    rows = [_row(case["name"], case, 1e3) for case in document["speeds"]]
    console.print(_table("thousand blocks a second", rows))
    rows = [
        [*_row(f"{pair['ours']} / {pair['reference']}", pair, 1.0), str(pair["goal"])]
        for pair in document["ratios"]
    ]
    console.print(_table("ratio on one core", rows, "goal"))
    for bounds in document["bounds"]:
        console.print(
            f"{bounds['rule']} on {bounds['model']}: E[tau] {bounds['lower']:.8f} and "
            f"{bounds['width']:.1e} more at most, {bounds['seconds']:.2f} s"
        )
    rows = [_row(f"V = {step['vocab_size']}", step["gain"], 1.0) for step in document["steps"]]
    console.print(_table("row step / sublinear step, time", rows))


def _row(name: str, values: dict[str, float], unit: float) -> list[str]:
    return [name, *(f"{values[key] / unit:,.4g}" for key in ("median", "min", "max"))]


def _table(title: str, rows: list[list[str]], *more: str) -> Table:
    table = Table(title, box=None, pad_edge=False)
    for heading in ("median", "min", "max", *more):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def markov(name: str) -> MarkovModel:
    """Return a built-in Markov model."""
    model = get_model(name)
    assert isinstance(model, MarkovModel)
    return model


def say(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

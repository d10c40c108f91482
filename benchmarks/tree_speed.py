"""Speed on draft trees: the compiled kernels against numpy and torch, and the cost of a node.

``python benchmarks/tree_speed.py`` takes two minutes; ``--quick`` takes seconds and
shows only that everything runs. See ``benchmarks/README.md``.
"""

import argparse
import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checks import CONFIDENCE
from compare_speed import markov, say
from measure import Case, machine, rates, ratio, spread
from references import BATCHES
from rich.console import Console
from rich.table import Table
from tree_references import RULES, NumpyTrees, TorchTrees

from simverify.models import MarkovModel
from simverify.simulators.exact.laws import linear_curve
from simverify.simulators.run import model_tables
from simverify.simulators.trees import simulate_trees
from simverify.stats import empirical_bernstein
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import get_tree_verifier

MODEL = "markov-64"
GAMMA = 8
SEED = 20250424
CHAINS = (1, 2, 4, 8)
"""Chains of GAMMA tokens whose cost is measured: 8 to 64 nodes."""

BY_NODES = (
    ("k-seq", "iid"), ("recursive", "iid"), ("tournament", "iid"), ("traversal", "iid"),
    ("gbv", "iid"), ("recursive-without-replacement", "without-replacement"),
    ("traversal-without-replacement", "without-replacement"),
)  # fmt: skip

RESULTS = Path(__file__).parent / "results" / "tree_speed.json"


def main() -> None:
    """Check, measure, print and write."""
    parser = argparse.ArgumentParser(description="Speed of the kernels for draft trees.")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/tree_speed.json, or none"
    )
    options = parser.parse_args()
    path = options.json or (None if options.quick else RESULTS)
    torch.set_num_threads(1)
    document = {
        "model": MODEL,
        "gamma": GAMMA,
        "quick": options.quick,
        "machine": machine(),
        "checks": checked(),
        **compared(options.quick),
        "nodes": by_nodes(options.quick),
    }
    show(document)
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n")


def checked() -> list[dict[str, Any]]:
    """Hold every reference's E[tau] to the exact one; the other rule's must be excluded."""
    say("checking the references")
    model, gamma, blocks = markov("toy"), 1, 12_000
    shape = shape_of_levels([2])
    exact = {rule: expected(model, rule, 2, gamma) for rule in RULES}
    numpy_trees, torch_trees = NumpyTrees(model, shape), TorchTrees(model, shape)
    found = []
    for rule, other in (RULES, RULES[::-1]):
        taus = {
            "numpy": numpy_trees.run(rule, blocks, np.random.default_rng(SEED)),
            "torch": torch_trees.run(rule, blocks, 1000, torch.Generator().manual_seed(SEED)),
        }
        for library, tau in taus.items():
            low, high = empirical_bernstein(
                float(tau.mean()), float(tau.var(ddof=1)), len(tau),
                low=0, high=gamma, error=1.0 - CONFIDENCE,
            )  # fmt: skip
            here = f"{library} {rule} on the toy: E[tau] in [{low:.4f}, {high:.4f}]"
            if not low <= exact[rule] <= high:
                raise RuntimeError(f"{here}, exactly {exact[rule]:.4f}: the reference is wrong")
            if low <= exact[other] <= high:
                raise RuntimeError(f"{here} does not exclude {other}'s {exact[other]:.4f}")
            found.append(
                {
                    "reference": f"{library} {rule}",
                    "interval": [low, high],
                    "exact": exact[rule],
                    "excluded": exact[other],
                }
            )
    return found


def expected(model: MarkovModel, rule: str, chains: int, gamma: int) -> float:
    """E[tau] of ``chains`` chains, from the closed form of a step."""
    hits = get_tree_verifier(rule).hits["iid"]
    rows = zip(model.target_rows, model.draft_rows, strict=True)
    start = hits(model.target_start, model.draft_start, chains)
    return float(linear_curve(start, np.array([hits(p, q, 1) for p, q in rows]), gamma).sum())


def compared(quick: bool) -> dict[str, Any]:
    """Rates of two chains a block, by the clock of the processor, and ratios to the references."""
    model = markov(MODEL)
    tables, shape = model_tables(model), shape_of_levels([2] + [1] * (GAMMA - 1))
    drafting = Drafting(shape, SCHEMES["iid"])
    scale, repetitions, batches = (100, 2, BATCHES[:1]) if quick else (1, 5, BATCHES)
    counted = {"transition_shape": (GAMMA + 1, model.states + 1, model.vocab_size)}
    numpy_trees, torch_trees = NumpyTrees(model, shape), TorchTrees(model, shape)
    generator, rng = torch.Generator().manual_seed(SEED), np.random.default_rng(SEED)
    cases = []
    for rule in RULES:
        for label, counting in (("counted", counted), ("bare", {})):
            for threads in (1, 2):
                blocks = 1_000_000 // scale * threads
                run = partial(
                    simulate_trees, tables, rule, drafting, blocks,
                    seed=SEED, threads=threads, **counting,
                )  # fmt: skip
                name = f"{rule} {label}, {threads} thread{'s' * (threads > 1)}"
                cases.append(Case(name, MODEL, rule, threads, blocks, run))
        blocks = max(1_000 // scale, 10)
        cases.append(
            Case(
                f"numpy {rule}", MODEL, rule, 1, blocks, partial(numpy_trees.run, rule, blocks, rng)
            )
        )
        for batch in batches:
            blocks = max(20_000 // scale // batch, 1) * batch
            run = partial(torch_trees.run, rule, blocks, batch, generator)
            cases.append(Case(f"torch {rule} B = {batch}", MODEL, rule, 1, blocks, run))
    say(f"timing {len(cases)} cases, {repetitions} times in turn")
    cpu = rates(cases, repetitions, clock=time.process_time)
    wall = rates([case for case in cases if case.threads > 1], repetitions)
    ratios = []
    for rule in RULES:
        names = [f"torch {rule} B = {batch}" for batch in batches]
        best = max(names, key=lambda name: spread(cpu[name]).median)
        for name in (f"numpy {rule}", best):
            found = ratio(cpu[f"{rule} counted, 1 thread"], cpu[name])
            ratios.append({"rule": rule, "reference": name, **asdict(found)})
    speeds = [
        {
            "name": case.name,
            "per_cpu_second": asdict(spread(cpu[case.name])),
            "per_second": asdict(spread(wall[case.name])) if case.name in wall else None,
        }
        for case in cases
    ]
    return {"repetitions": repetitions, "speeds": speeds, "ratios": ratios}


def by_nodes(quick: bool) -> list[dict[str, Any]]:
    """Processor time of a block of 1 to 8 chains, 8 to 64 nodes."""
    say("the cost of a node")
    tables = model_tables(markov(MODEL))
    blocks, repetitions = (1_000, 2) if quick else (200_000, 5)
    found = []
    for rule, scheme in BY_NODES:
        costs = {}
        for chains in CHAINS:
            shape = shape_of_levels([chains] + [1] * (GAMMA - 1))
            run = partial(
                simulate_trees, tables, rule, Drafting(shape, SCHEMES[scheme]), blocks,
                seed=SEED, threads=1,
            )  # fmt: skip
            # Not in turn with the others: only so are its tables ready.
            case = Case(rule, MODEL, rule, 1, blocks, run)
            speed = spread(rates([case], repetitions, clock=time.process_time)[rule]).median
            costs[len(shape)] = 1e9 / speed
        found.append({"rule": rule, "nanoseconds": costs})
    return found


def show(document: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console(width=90, highlight=False, markup=False)
    table = Table("thousand blocks", "a CPU second", "a second", box=None, pad_edge=False)
    for speed in document["speeds"]:
        both = (speed[key] for key in ("per_cpu_second", "per_second"))
        table.add_row(speed["name"], *(f"{x['median'] / 1e3:,.4g}" if x else "" for x in both))
    console.print(table)
    table = Table("ratio on one core", "median", "min", "max", box=None, pad_edge=False)
    for pair in document["ratios"]:
        values = (f"{pair[key]:,.4g}" for key in ("median", "min", "max"))
        table.add_row(f"{pair['rule']} counted / {pair['reference']}", *values)
    console.print(table)
    nodes = [str(GAMMA * chains) for chains in CHAINS]
    table = Table("CPU nanoseconds a block, nodes:", *nodes, box=None, pad_edge=False)
    for row in document["nodes"]:
        table.add_row(row["rule"], *(f"{value:,.0f}" for value in row["nanoseconds"].values()))
    console.print(table)


if __name__ == "__main__":
    main()

"""Speed and memory of the whole battery: tokens counted per context, and streamed.

``python benchmarks/battery_speed.py`` takes about a minute on two idle cores; ``--quick`` takes
seconds and shows only that everything runs. See ``benchmarks/README.md``.
"""

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine

from simverify import stats
from simverify.battery.battery import (
    SlotCounts,
    context_shares,
    detectable_faults,
    fault_counts,
    judge_tokens,
    kernel_shares,
    single_slot_rows,
)
from simverify.models import MarkovModel, get_model
from simverify.simulators.run import ORDERS, Features, features, markov_tables, simulate

GAMMA = 8
SEED = 20251121
ALPHA = 1e-6
THREADS = 2
MEBIBYTE = 2**20
GOALS = {"counted": 10.0, "streamed": 20.0}
"""Seconds for 1e7 tokens at V = 64, gamma = 8, and for 1e5 at V = 151,936, on two idle cores."""

MEMORY_GOAL = 500
"""Most mebibytes of the counted case, the simulator included."""

BATCH_BYTES = 128 * MEBIBYTE
RESULTS = Path(__file__).parent / "results" / "battery_speed.json"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Speed of simverify's battery of tests.")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/battery_speed.json, or none"
    )
    options = parser.parse_args()
    path = options.json or (None if options.quick else RESULTS)
    scale = 1000 if options.quick else 1
    before = machine()
    # In this order: the peak of memory is that of all cases so far.
    cases = [
        *(counted(rule, 10**7 // scale) for rule in ("token", "block")),
        streamed(64, 10**6 // scale, np.float64),
        streamed(5_000, 10**5 // scale, np.float64),
        streamed(151_936, 10**5 // scale, np.float32),
    ]
    document = {
        "gamma": GAMMA, "seed": SEED, "alpha": ALPHA, "threads": THREADS, "quick": options.quick,
        "memory_goal_mib": MEMORY_GOAL, "machine": before, "cases": cases,
    }  # fmt: skip
    show(cases)
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n")


def counted(rule: str, tokens: int) -> dict[str, Any]:
    """Simulate first calls of ``rule`` on markov-64, count per slot and context, test."""
    model = get_model("markov-64")
    assert isinstance(model, MarkovModel)
    tables = markov_tables(model)
    p = np.vstack([model.target_rows, model.target_start])
    q = np.vstack([model.draft_rows, model.draft_start])
    shape = (GAMMA + 1, *p.shape)

    def run(trials: int) -> tuple[float, float, int, list[stats.TestResult]]:
        clock = time.perf_counter()
        found = simulate(
            tables, rule, GAMMA, trials, seed=SEED, threads=THREADS, transition_shape=shape
        ).transitions
        simulated = time.perf_counter()
        faults = detectable_faults(prefix=False, first_row=False)
        judged = found[:GAMMA].sum(axis=0), p, single_slot_rows(faults, p, q)
        slots = [SlotCounts(f"slot {slot + 1}", table, p, q) for slot, table in enumerate(found)]
        shares = kernel_shares(ALPHA, calls=False)
        battery = judge_tokens(
            slots, fault_counts(faults, [judged]), shares | context_shares(shares["output"])
        )
        tests = list(battery.tests)
        now = time.perf_counter()
        return simulated - clock, now - simulated, int(found.sum()), tests

    # Compiles, and says how many tokens a call gives.
    *_, few, _ = run(2_000)
    cpu = time.process_time()
    simulating, testing, n, tests = run(math.ceil(tokens / (few / 2_000)))
    return {
        "name": f"counted, {rule}", "vocab_size": model.vocab_size, "dtype": "float64",
        "tokens": n, "making_seconds": simulating, "battery_seconds": testing,
        "cpu_seconds": time.process_time() - cpu, "tests": len(tests),
        "rejected": rejected(tests), "peak_mib": peak(), "goal_seconds": GOALS["counted"],
        "goal_tokens": 10**7,
    }  # fmt: skip


def streamed(vocab_size: int, tokens: int, dtype: Any) -> dict[str, Any]:
    """Tokens of distinct rows: every row is one of eight, turned by an offset of its own."""
    batch = max(1, min(tokens, BATCH_BYTES // (2 * vocab_size * np.dtype(dtype).itemsize)))
    make = rows_of(vocab_size, dtype)
    features(*make(0, 1)[:4], threads=THREADS)  # compiles
    making = testing = cpu = 0.0
    total: Features | None = None
    for number, begin in enumerate(range(0, tokens, batch)):
        clock = time.perf_counter()
        arguments = make(number, min(batch, tokens - begin))
        made, used = time.perf_counter(), time.process_time()
        part = features(*arguments, threads=THREADS)
        total = part if total is None else total + part
        making += made - clock
        testing += time.perf_counter() - made
        cpu += time.process_time() - used
    assert total is not None
    clock, used = time.perf_counter(), time.process_time()
    tests = tests_of(total)
    testing += time.perf_counter() - clock
    cpu += time.process_time() - used
    return {
        "name": f"streamed, V = {vocab_size}", "vocab_size": vocab_size,
        "dtype": np.dtype(dtype).name, "tokens": tokens, "making_seconds": making,
        "battery_seconds": testing, "cpu_seconds": cpu, "tests": len(tests),
        "rejected": rejected(tests), "peak_mib": peak(),
        "goal_seconds": GOALS["streamed"] if vocab_size > 100_000 else None,
        "goal_tokens": 10**5,
    }  # fmt: skip


def rows_of(vocab_size: int, dtype: Any) -> Callable[[int, int], tuple[Any, ...]]:
    """Return a maker of batches: target and draft rows, tokens drawn from the former, uniforms."""
    rng = np.random.default_rng([SEED, vocab_size])
    p = rng.dirichlet(np.full(vocab_size, 0.3), 8)
    q = 0.6 * p + 0.4 * rng.dirichlet(np.full(vocab_size, 0.3), 8)
    twice = [np.tile(rows, 2).astype(dtype) for rows in (p, q)]
    cdf = np.cumsum(twice[0][:, :vocab_size], axis=1, dtype=np.float64)

    def make(number: int, n: int) -> tuple[Any, ...]:
        fresh = np.random.default_rng([SEED, vocab_size, number])
        kind, turn = fresh.integers(8, size=n), fresh.integers(vocab_size, size=n)
        own = np.array(
            [np.searchsorted(cdf[k], cdf[k, -1] * fresh.random(), "right") for k in kind]
        )
        rows = [
            np.stack([both[k, t : t + vocab_size] for k, t in zip(kind, turn, strict=True)])
            for both in twice
        ]
        return *rows, (own - turn) % vocab_size, fresh.random(n)

    return make


def tests_of(sums: Features) -> list[stats.TestResult]:
    """Every test that the sums serve."""
    tests = [
        stats.pit_ks(bins, alpha=ALPHA, name=f"PIT, {order}")
        for order, bins in zip(ORDERS, sums.pits, strict=True)
    ]
    tests += [
        stats.score_test(getattr(sums, name), alpha=ALPHA, name=name)
        for name in ("accept", "contrast", "surprise")
    ]
    tests += [stats.indicator_test(bits, alpha=ALPHA) for bits in (sums.q_above_p, *sums.rare)]
    return [*tests, stats.ratio_gate(sums.ratios, alpha=ALPHA).test]


def rejected(tests: list[stats.TestResult]) -> list[str]:
    """Names of the tests that reject: none, of a right verifier's tokens."""
    return [test.name for test in tests if test.log_pvalue < math.log(ALPHA / len(tests))]


def peak() -> float:
    """Most memory so far, in mebibytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (MEBIBYTE if sys.platform == "darwin" else 1024)


def show(cases: list[dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'case':24}{'tokens':>11}{'rows, s':>9}{'battery, s':>12}{'CPU, s':>8}{'MiB':>6}"
          f"{'goal, s':>9}")  # fmt: skip
    for case in cases:
        goal = "" if case["goal_seconds"] is None else f"{case['goal_seconds']:g}"
        print(
            f"{case['name']:24}{case['tokens']:>11,}{case['making_seconds']:>9.2f}"
            f"{case['battery_seconds']:>12.2f}{case['cpu_seconds']:>8.2f}"
            f"{case['peak_mib']:>6.0f}{goal:>9}"
        )


if __name__ == "__main__":
    main()

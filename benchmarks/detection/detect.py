"""What the battery detects, against the best single test and against other projects' tests.

``python benchmarks/detection/detect.py`` takes some ten minutes and writes
``benchmarks/results/detection.json`` and the table in ``README.md``; ``--quick`` takes seconds,
writes neither, and shows only that everything runs.
"""

import argparse
import json
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

import battery
import numpy as np
import pairs
from instances import DISTINCT, LARGE, SMALL, Tables, load_large, load_small
from lines import (
    LARGE_LINES,
    NAMED,
    SMALL_LINES,
    Found,
    Line,
    call_law,
    candidates,
    measure_large,
    measure_small,
    small_law,
    small_setting,
)
from peers import PEERS, CallView, SlotView, View, shares
from power import Needed
from trials import Calls, simulate

from simverify.faults.catalogue import get_fault

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "detection.json"
README = HERE / "README.md"
BEGIN, END = "<!-- table: made by detect.py -->\n", "<!-- end of table -->\n"

QUICK = {SMALL: ("ratio inverted", pairs.SAME.label), LARGE: (), DISTINCT: ()}


def main() -> None:
    """Check, measure, print and write."""
    parser = argparse.ArgumentParser(description="What the battery detects, and its peers.")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/detection.json, or none"
    )
    options = parser.parse_args()
    path = options.json or (None if options.quick else RESULTS)
    clock = time.process_time()
    tables = load_small()
    document = {
        "alpha": battery.ALPHA,
        "power": battery.POWER,
        "quick": options.quick,
        "checks": checks(tables, NAMED[5:6] if options.quick else NAMED),
        "healthy": healthy(tables, 20 if options.quick else 200),
        "right_code": right_code(tables, options.quick),
        "lines": measured(tables, options.quick),
    }
    # Lines are measured in other processes, which keep their own time.
    here = 0.0 if options.quick else sum(line["cpu_seconds"] for line in document["lines"])
    document["cpu_seconds"] = round(time.process_time() - clock + here, 1)
    print(table(document))
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n")
    if not options.quick:
        before, _, rest = README.read_text().partition(BEGIN)
        README.write_text(
            before + BEGIN + "\n" + table(document) + "\n" + END + rest.partition(END)[2]
        )


def checks(tables: Tables, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Compare the faulty code's own law, run on every path, with the closed form."""
    found = []
    for name in names:
        say(f"checking {name}")
        law = call_law(tables, name)
        counts = law.counts(law.probabilities)
        slots = counts / counts.sum(axis=1, keepdims=True)
        closed = small_law(tables, get_fault(name))
        found.append(
            {
                "fault": name,
                "largest_difference": float(np.abs(slots - closed).max()),
                "from_target": float(np.abs(slots - tables.target).max()),
            }
        )
    return found


def healthy(tables: Tables, runs: int) -> dict[str, Any]:
    """Run the tests of every small line on right code: none may reject."""
    say("right code")
    law = call_law(tables, None)
    calls, rejected, smallest = 2_000, 0, 0.0
    names = ("target-residual", "reused-uniform")
    for name in names:
        setting = small_setting(tables, call_law(tables, name))
        linear, orders, g2 = candidates(
            setting, lambda fault: small_law(tables, fault), get_fault(name)
        )
        linear = [test for test in linear if test.kind != "oracle"]
        trials = simulate(setting, Calls(law), linear, orders, g2, [calls], runs // len(names), 7)
        for test, logs in trials.log_pvalues.items():
            rejected += int((logs < math.log(trials.levels[test])).sum())
            smallest = min(smallest, float(logs.min()))
    return {
        "runs": runs // len(names) * len(names),
        "tokens": calls * law.tokens_per_call,
        "rejections": rejected,
        "smallest_log_pvalue": smallest,
    }


def right_code(tables: Tables, quick: bool) -> dict[str, Any]:
    """Share of runs in which each peer rejects the token rule: its false alarms.

    With its own calls, and with 1,000.
    """
    target = tables.target[0]
    views: dict[str, View] = {SMALL: CallView(call_law(tables.flat(), None), target)}
    if not quick:
        for name in (LARGE, DISTINCT):
            row = load_large(name)[0][0]
            views[name] = SlotView(row, row)
    runs = {SMALL: 10 if quick else 100}
    return {name: peer_shares(view, 1_000, runs.get(name, 20)) for name, view in views.items()}


def measured(tables: Tables, quick: bool) -> list[dict[str, Any]]:
    """Measure all lines, or those of ``QUICK``, on all processors; each has its own seed."""
    lines = [*SMALL_LINES, pairs.SAME, pairs.DIFFERENT, *LARGE_LINES]
    if quick:
        return [
            measure(line, tables, quick) for line in lines if line.label in QUICK[line.instance]
        ]
    with ProcessPoolExecutor() as pool:
        return list(pool.map(measure, lines, repeat(tables), repeat(quick)))


def measure(line: Line, tables: Tables, quick: bool) -> dict[str, Any]:
    """Measure one line, and what the peers see of it."""
    small_runs, large_runs, peer_runs = (60, 0, 10) if quick else (300, 150, 100)
    clock = time.process_time()
    if line in (pairs.SAME, pairs.DIFFERENT):
        result = pairs.measure_pairs(line, tables, small_runs // 2)
        view: View = CallView(call_law(tables.flat(), None), tables.target[0])
        calls = result.battery.n
    elif line.instance == SMALL:
        result = measure_small(line, tables, small_runs)
        view = CallView(call_law(tables.flat(), line.fault), tables.target[0])
        calls = result.battery.n / call_law(tables, line.fault).tokens_per_call
    else:
        rows = load_large(line.instance)
        result, emitted = measure_large(line, rows, large_runs)
        view = SlotView(emitted[0], rows[0][0])
        calls, peer_runs = result.battery.n, peer_runs // 5
    found = entry(result, peer_shares(view, math.ceil(calls), peer_runs), clock)
    say(f"{line.instance}: {line.label}: ratio {found['ratio']:.2f}, {found['cpu_seconds']} s")
    return found


def entry(result: Found, peers: dict[str, Any], clock: float) -> dict[str, Any]:
    """One line of the document."""
    line: Line = result.line
    return {
        **asdict(line),
        "unit": "pairs" if line.fault == "shared stream" else "tokens",
        "best_test": result.best_test,
        "best": _finite(result.best),
        "battery": _finite(result.battery),
        "ratio": result.ratio,
        "runs": result.runs,
        "tests": result.tried,
        "peers": peers,
        "cpu_seconds": round(time.process_time() - clock, 1),
    }


def _finite(needed: Needed) -> dict[str, float | None]:
    """N and its interval; null beyond the sizes that were tried."""
    return {key: n if math.isfinite(n) else None for key, n in asdict(needed).items()}


def peer_shares(view: View, calls: int, runs: int) -> dict[str, Any]:
    """Share of runs in which each peer rejects, at its own calls and at ours."""
    found = shares(view, calls, runs, np.random.default_rng(calls))
    return {name: {"own": own, "ours": ours} for name, (own, ours) in found.items()}


def table(document: dict[str, Any]) -> str:
    """Markdown table of all lines."""
    names = [peer.name for peer in PEERS]
    head = ["fault", "best single test", "N, best", "N, battery", "ratio", *names]
    rows = [_row(head), _row(["---", "---", *["---:"] * (len(head) - 2)])]
    lines = document["lines"]
    for instance, peers in document["right_code"].items():
        rows.append(_row([f"**{instance}**", *[""] * (len(head) - 1)]))
        for line in lines:
            if line["instance"] == instance:
                figures = [_interval(line["best"]), _interval(line["battery"])]
                seen = [_shares(line["peers"][name]) for name in names]
                ratio = f"{line['ratio']:.2f}"
                rows.append(_row([line["label"], line["best_test"], *figures, ratio, *seen]))
        rows.append(_row(["right code", "", "", "", "", *(_shares(peers[n]) for n in names)]))
    return "\n".join(rows) + "\n"


def _interval(needed: dict[str, float | None]) -> str:
    return f"{_count(needed['n'])} ({_count(needed['low'])} to {_count(needed['high'])})"


def _count(n: float | None) -> str:
    if n is None:
        return "more"
    return f"{float(f'{n:.3g}'):,.0f}" if n >= 100 else f"{n:.0f}"


def _shares(peer: dict[str, float]) -> str:
    return f"{peer['own']:.0%} / {peer['ours']:.0%}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def say(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

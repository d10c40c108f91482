"""How cost grows: processor time and memory of compare and audit, one number at a time.

    python benchmarks/growth.py            # a quarter of an hour of processor time
    python benchmarks/growth.py --quick    # shows that everything runs, nothing more

Every command runs in a process of its own; its time is that of all processors, its memory the
largest of its processes. A command that takes no longer than the smallest of its kind by `JUDGED`
seconds, or `JUDGED_MIB` mebibytes, is not judged. Of two runs the cheaper counts. It ends with 1
where something grows faster than `growth_cases.py` says that it may. Figures go to
`results/growth.json`, the picture beside them.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from growth_cases import Axis, axes
from growth_picture import draw
from measure import machine
from rich.console import Console
from rich.table import Table

JUDGED = 0.5
JUDGED_MIB = 30.0
SLACK = 0.2
"""How much more than the promised power a measured one may be, which is of noisy times."""

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure, judge, print, draw and write; 1 if something grows too fast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shows that it runs")
    parser.add_argument("--only", default="", metavar="WORD", help="axes whose name holds it")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: results, or none")
    options = parser.parse_args()
    folder = options.out or (None if options.quick or options.only else RESULTS)
    measured = [axis_measured(axis) for axis in axes(options.quick) if options.only in axis.name]
    document = {"quick": options.quick, "machine": machine(), "axes": measured}
    show(measured)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "growth.json").write_text(json.dumps(document, indent=1) + "\n")
        draw(measured, folder / "growth.svg")
    return 1 if any(axis["too_fast"] for axis in measured) else 0


def axis_measured(axis: Axis) -> dict[str, Any]:
    """Run an axis from its smallest value on, and judge the growth over its last step."""
    print(axis.name, file=sys.stderr, flush=True)
    points = []
    for value in axis.values:
        # The first run may compile, and other work on the machine only adds.
        best = min((_run(axis, value) for _ in range(2)), key=lambda found: found["cpu_seconds"])
        points.append({"value": value, **best})
    times = power(points, "cpu_seconds", JUDGED)
    memories = power(points, "mebibytes", JUDGED_MIB)
    faster = [
        word
        for word, found, most in (("time", times, axis.time), ("memory", memories, axis.memory))
        if found is not None and most is not None and found > most + SLACK
    ]
    return {
        "name": axis.name, "points": points, "time_power": times, "memory_power": memories,
        "time_at_most": axis.time, "memory_at_most": axis.memory, "too_fast": faster,
    }  # fmt: skip


def _run(axis: Axis, value: float) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        return cost(axis.command(value, Path(folder)))


def cost(command: Sequence[str]) -> dict[str, float]:
    """Run simverify with these words; processor seconds, wall seconds and peak memory."""
    words = [sys.executable, "-m", "simverify", *command, "--quiet"]
    begin = time.perf_counter()
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        # Of the process and of those that it waited for; the peak is that of the largest one.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}: {said}")
    return {
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "seconds": time.perf_counter() - begin,
        "mebibytes": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }


def power(points: Sequence[dict[str, float]], key: str, judged: float) -> float | None:
    """Return the power of the value with which a cost grew over the last step.

    The line through the two smallest values says what start-up costs, which is taken off. None
    where less than ``judged`` is added to the smallest: a cost that is small grows with nothing.
    """
    first, second, before, last = points[0], points[1], points[-2], points[-1]
    if last[key] - first[key] < judged:
        return None
    slope = (second[key] - first[key]) / (second["value"] - first["value"])
    start = min(first[key], max(0.0, first[key] - slope * first["value"]))
    grown = (last[key] - start) / max(before[key] - start, judged)
    return math.log(grown) / math.log(last["value"] / before["value"])


def show(measured: Sequence[dict[str, Any]]) -> None:
    """Print a table of every axis' ends and powers."""
    table = Table("", box=None, pad_edge=False)
    for heading in ("from", "to", "CPU s", "", "power", "MiB", "", "power"):
        table.add_column(heading, justify="right")
    for axis in measured:
        first, last = axis["points"][0], axis["points"][-1]
        table.add_row(
            axis["name"] + (" TOO FAST" if axis["too_fast"] else ""),
            f"{first['value']:,.4g}", f"{last['value']:,.0f}",
            f"{first['cpu_seconds']:.1f}", f"{last['cpu_seconds']:.1f}",
            _power(axis, "time"),
            f"{first['mebibytes']:.0f}", f"{last['mebibytes']:.0f}",
            _power(axis, "memory"),
        )  # fmt: skip
    Console(width=110, highlight=False, markup=False).print(table)


def _power(axis: dict[str, Any], word: str) -> str:
    found, most = axis[f"{word}_power"], axis[f"{word}_at_most"]
    text = "flat" if found is None else f"{found:.2f}"
    return text if most is None else f"{text} of {most}"


if __name__ == "__main__":
    sys.exit(main())

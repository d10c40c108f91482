"""How cost grows: processor time and memory of compare and audit, one number at a time.

    python benchmarks/growth.py            # a quarter of an hour
    python benchmarks/growth.py --quick    # two small sizes of each: shows that everything runs

Every command runs in a process of its own; its time is that of all processors and processes, its
memory that of all processes together, and of the largest. Of two runs of each value that a power is
made of the cheaper counts, and of up to five where the axis would seem to grow too fast: whatever
else runs only adds, to one value as well as to another. It ends with 1 where something grows faster
than `growing/compared.py` and `growing/audited.py` say that it may. Figures go to
`results/growth.json`, the picture beside them.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from growing.audited import audited
from growing.axis import Axis, Point, judged
from growing.compared import compared
from growing.cost import cost
from growing.picture import draw
from measure import machine
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
WORDS = ("time", "memory", "largest")
AGAIN = 3
"""How often an axis that seems to grow too fast is run once more before it is named."""


def main() -> int:
    """Measure, judge, print, draw and write; 1 if something grows too fast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shows that it runs")
    parser.add_argument("--only", default="", metavar="WORD", help="axes whose name holds it")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: results, or none")
    options = parser.parse_args()
    chosen = [axis for axis in axes(options.quick) if options.only in axis.name]
    if not chosen:
        names = ", ".join(axis.name for axis in axes(options.quick))
        parser.error(f"--only is {options.only!r}: expected a part of one of {names}")
    folder = options.out or (None if options.quick or options.only else RESULTS)
    measured: list[dict[str, Any]] = []
    document = {"quick": options.quick, "machine": machine(), "axes": measured}
    for axis in chosen:
        measured.append(axis_measured(axis, 1 if options.quick else 2))
        if folder is not None:  # what was measured is there if the next command fails
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "growth.json").write_text(json.dumps(document, indent=1) + "\n")
            draw(measured, folder / "growth.svg")
    show(measured)
    return 1 if any(axis["too_fast"] for axis in measured) else 0


def axes(quick: bool) -> Iterator[Axis]:
    """Yield everything that grows; its two smallest values if ``quick``."""
    for axis in (*audited(quick), *compared(quick)):
        few = axis.values[:2] if quick else axis.values
        yield Axis(**{**vars(axis), "values": few})


def axis_measured(axis: Axis, runs: int) -> dict[str, Any]:
    """Run an axis from its smallest value on, and judge its growth."""
    began = time.perf_counter()
    # The first run may compile, and other work on the machine only adds.
    points = [_cheapest(axis, v, runs if v in axis.decisive else 1) for v in axis.values]
    found = judged(axis, points)
    for _ in range(AGAIN):
        if not found["too_fast"]:
            break
        points = [
            _cheapest(axis, point["value"], 1, point) if point["value"] in axis.decisive else point
            for point in points
        ]
        found = judged(axis, points)
    print(f"{axis.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def _cheapest(axis: Axis, value: float, runs: int, before: Point | None = None) -> Point:
    """Return the least cost of a value over these runs, and over those before them."""
    with TemporaryDirectory() as folder:
        found = [cost(axis.command(value, Path(folder))) for _ in range(runs)]
    if before is not None:
        found.append(before)
    return {"value": value} | {key: min(x[key] for x in found) for key in found[0]}


def show(measured: Sequence[dict[str, Any]]) -> None:
    """Print a table of every axis' ends and powers."""
    table = Table("", box=None, pad_edge=False)
    headings = ("from", "to", "CPU s", "", "power", "MiB in all", "", "power", "of one", "power")
    for heading in headings:
        table.add_column(heading, justify="right")
    for axis in measured:
        first, last = axis["points"][0], axis["points"][-1]
        time_power, memory_power, largest_power = (_power(axis, word) for word in WORDS)
        table.add_row(
            axis["name"] + "".join(f" {word.upper()} TOO FAST" for word in axis["too_fast"]),
            f"{first['value']:,.4g}", f"{last['value']:,.0f}",
            f"{first['cpu_seconds']:.1f}", f"{last['cpu_seconds']:.1f}", time_power,
            f"{first['mebibytes']:.0f}", f"{last['mebibytes']:.0f}", memory_power,
            f"{last['largest_mebibytes']:.0f}", largest_power,
        )  # fmt: skip
    Console(width=130, highlight=False, markup=False).print(table)


def _power(axis: dict[str, Any], word: str) -> str:
    found, most = axis["powers"][word], axis["at_most"][word]
    return f"{'flat' if found is None else f'{found:.2f}'} of {most:g}"


if __name__ == "__main__":
    sys.exit(main())

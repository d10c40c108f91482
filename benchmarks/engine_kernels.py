"""Kernels of real engines in Triton's interpreter and on tiles, each by itself, in one process.

    python benchmarks/engine_kernels.py                     # our own kernels alone
    python benchmarks/engine_kernels.py --from FOLDER       # those of packages that lie there, too

An engine's own function is called on random batches; every kernel that it launches is launched
again both ways on what it was given then. Processor time, so that other work on the machine counts
on neither side. Ends with 1 if a tensor holds other bits.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.kernel_launches import Kernels, Launch, differences, launches
from support.launching_engines import ENGINES, SHAPES, both, drafted

from simverify.backends.batch import interpreter

REPEATS = 20


def timed(calls: list[Callable[[], None]]) -> float:
    """Return milliseconds of one of these calls."""
    start = time.process_time()
    for call in calls:
        call()
    return (time.process_time() - start) / len(calls) * 1e3


def times(given: list[Launch], tiles: Kernels, real: Kernels, turns: int) -> tuple[float, ...]:
    """Return milliseconds of all launches in the interpreter and on tiles, and the median ratio."""
    seen = []
    for _ in range(turns):
        slow = fast = 0.0
        for launch in given:
            # Kernels write into what they are given, so that each launch gets copies of its own.
            fast += timed([launch.on(tiles)[0] for _ in range(REPEATS)])
            with interpreter():
                slow += timed([launch.on(real)[0]])
        seen.append((slow, fast, slow / fast))
    return tuple(statistics.median(column) for column in zip(*seen, strict=True))


def places(folders: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield engines with their files; a line says which are not there."""
    for name, (file, _) in ENGINES.items():
        found = [x / file for x in (Path(), *folders) if (x / file).is_file()]
        if found:
            yield name, found[0]
        else:
            print(f"{name}: no {file} in the folders of --from, so not timed")


def main() -> None:
    """Print a table; exit with 1 if a result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds: shows that all runs")
    parser.add_argument("--from", dest="folders", type=Path, nargs="*", default=[],
                        help="folders of packages, as pip install --target makes them")  # fmt: skip
    asked = parser.parse_args()
    torch.set_num_threads(1)
    shapes, turns = (SHAPES[1:2], 1) if asked.quick else (SHAPES, 5)
    print(f"{'kernel':<52} {'interpreter':>12} {'tiles':>10} {'ratio':>7}")
    different, ratios = [], []
    for name, file in places(asked.folders):
        tiles, real = both(ENGINES[name][1], file)
        by_kernel: dict[str, list[Launch]] = defaultdict(list)
        for launch in (x for batch in drafted(shapes) for x in launches(tiles, batch)):
            by_kernel[launch.kernel].append(launch)
        for kernel, given in by_kernel.items():
            different += [f"{name} {kernel}" for x in given if differences(x, tiles, real)]
            slow, fast, ratio = times(given, tiles, real, turns)
            ratios.append(ratio)
            shown = f"{name} {kernel}"[:52]
            print(f"{shown:<52} {slow:>9.1f} ms {fast:>7.2f} ms {ratio:>6.1f}x", flush=True)
    print(f"least {min(ratios):.1f}x, median {statistics.median(ratios):.1f}x")
    if different:
        raise SystemExit(f"other results: {', '.join(sorted(set(different)))}")


if __name__ == "__main__":
    main()

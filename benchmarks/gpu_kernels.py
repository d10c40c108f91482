"""Kernels of real engines, compiled for a GPU and on tiles: the same launches, one by one.

    python benchmarks/gpu_kernels.py                     # our own kernels alone
    python benchmarks/gpu_kernels.py --from FOLDER       # those of packages that lie there, too

What tiles promise is the law that an engine has on its GPU. An engine's own function is called on
random batches; every kernel that it launches is launched again compiled, on what it was given
then. A GPU sums in another order and has other logarithms, so that floats are compared within
``NEAR``; of whole numbers (tokens, counts) those that differ are counted. Without a GPU it says so
and exits 2; it exits 1 where floats are further apart or more than one whole number in 1,000
differs.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import torch
from engine_kernels import places
from support.kernel_launches import Launch, apart, compiled, launches
from support.launching_engines import ENGINES, SHAPES, both, drafted

NEAR = 1e-5
OTHERS = 1e-3


def main() -> int:
    """Print a line per kernel and return the exit code."""
    parser = argparse.ArgumentParser(description="Engines' kernels: a GPU against tiles.")
    parser.add_argument("--batches", type=int, default=20, help="batches of each shape")
    parser.add_argument("--from", dest="folders", type=Path, nargs="*", default=[],
                        help="folders of packages, as pip install --target makes them")  # fmt: skip
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_kernels.py: torch sees no GPU: run it where one is", file=sys.stderr)
        return 2
    print(f"{'kernel':<52} {'launches':>8} {'whole numbers':>13} {'differ':>6} {'floats':>8}")
    far = []
    for name, file in places(asked.folders):
        tiles, real = both(ENGINES[name][1], file, compiled)
        seen: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for batch in drafted(SHAPES, asked.batches):
            for launch in launches(tiles, batch):
                seen[launch.kernel].append((wholes(launch), *apart(launch, tiles, real)))
        for kernel, rows in seen.items():
            numbers, other = sum(row[0] for row in rows), sum(row[1] for row in rows)
            floats = max(row[2] for row in rows)
            shown = f"{name} {kernel}"[:52]
            print(f"{shown:<52} {len(rows):>8} {numbers:>13} {other:>6} {floats:>8.1e}", flush=True)
            if floats > NEAR or other > OTHERS * numbers:
                far.append(shown)
    if far:
        print(f"far apart: {', '.join(far)}")
    return bool(far)


def wholes(launch: Launch) -> int:
    """Count the whole numbers in a launch's tensors."""
    tensors = [x for x in (*launch.args, *launch.named.values()) if isinstance(x, torch.Tensor)]
    return sum(x.numel() for x in tensors if not x.is_floating_point())


if __name__ == "__main__":
    sys.exit(main())

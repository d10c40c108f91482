"""The same kernel calls in Triton's interpreter and on tiles, in turn, in one process.

Processor time, so that other work on the machine counts on neither side. What both give must be
the same, number by number.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simverify.backends.batch import interpreter, load_triton
from simverify.engines.catalogue.sglang import CHAIN_FUNCTION, sglang_chain_sampling
from simverify.engines.extract import load_file
from simverify.triton_cpu import load_tiles

KERNELS = Path(__file__).with_name("tile_kernels.py")
GOAL = 30.0
SHAPES = ((1, 3, 5), (1, 5, 32), (4, 3, 8), (1, 4, 1000))
"""B, gamma and V."""

Call = Callable[..., Any]


def cases(ours: Any, theirs: Any) -> Iterator[tuple[str, Call, Call, tuple[Any, ...]]]:
    """Yield name, the call on tiles and in the interpreter, and what they are given."""
    for batch, gamma, vocab in SHAPES:
        generator = torch.Generator().manual_seed(vocab)

        def rows(*shape: int, generator: Any = generator) -> Any:
            x = torch.rand(shape, generator=generator)
            return x / x.sum(-1, keepdim=True)

        given = (
            rows(batch, gamma + 1, vocab),
            rows(batch, gamma, vocab),
            torch.randint(vocab, (batch, gamma), generator=generator),
            torch.rand(batch, gamma + 1, generator=generator),
        )
        yield f"token B={batch} gamma={gamma} V={vocab}", ours.token, theirs.token, given
        yield f"noise B={batch} V={vocab}", ours.noise, theirs.noise, (given[0][:, 0].log(),)


def of_sglang(file: Path) -> Iterator[tuple[str, Call, Call, tuple[Any, ...]]]:
    """Yield the same of SGLang's kernel, called as an audit calls it."""
    tiles = load_tiles(file, [CHAIN_FUNCTION])
    real, _ = load_triton(lambda: load_file(file, "sglang_interpreted"))
    for rule, block in (("token", False), ("block", True)):
        ours, theirs = (
            sglang_chain_sampling(getattr(made, CHAIN_FUNCTION), block=block)
            for made in (tiles, real)
        )
        for _, gamma, vocab in SHAPES[::2]:
            rng = np.random.default_rng(vocab)
            p, q = rng.dirichlet(np.ones(vocab), gamma + 1), rng.dirichlet(np.ones(vocab), gamma)
            given = p, q, rng.integers(vocab, size=gamma), rng.random(gamma + 1)
            yield f"sglang {rule} gamma={gamma} V={vocab}", ours, theirs, given


def times(ours: Call, theirs: Call, given: Any, turns: int) -> tuple[float, float, float]:
    """Return milliseconds of a call on tiles and in the interpreter, and the median ratio."""
    seen = []
    for _ in range(turns):
        slow = _milliseconds(theirs, given, 1)
        fast = _milliseconds(ours, given, 20)
        seen.append((fast, slow, slow / fast))
    fast, slow, ratio = (statistics.median(column) for column in zip(*seen, strict=True))
    return fast, slow, ratio


def _milliseconds(call: Call, given: Any, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call(*given)
    return (time.process_time() - start) / repeats * 1e3


def same(ours: Any, theirs: Any) -> bool:
    """Whether two results are the same tensors."""
    if isinstance(ours, list):
        return bool(ours == theirs)
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (ours, theirs)), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def main() -> None:
    """Print a table; exit with 1 if a result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds: shows that all runs")
    parser.add_argument("--sglang", type=Path, help="SGLang's reject_sampling.py, timed as well")
    asked = parser.parse_args()
    turns = 1 if asked.quick else 9
    torch.set_num_threads(1)
    real, device = load_triton(lambda: load_file(KERNELS, "tile_kernels_interpreted"))
    if device != "cpu":
        raise SystemExit("there is a GPU: TRITON_INTERPRET=1 chooses the interpreter")
    tiles = load_tiles(KERNELS, ["token", "noise"])
    print(f"{'call':<28} {'interpreter':>12} {'tiles':>9} {'ratio':>7}   (goal {GOAL:g})")
    different, ratios = [], []
    tried = [*cases(tiles, real), *([] if asked.sglang is None else of_sglang(asked.sglang))]
    with interpreter():
        for name, ours, theirs, given in tried:
            if not same(ours(*given), theirs(*given)):
                different.append(name)
            fast, slow, ratio = times(ours, theirs, given, turns)
            ratios.append(ratio)
            print(f"{name:<28} {slow:>9.2f} ms {fast:>6.3f} ms {ratio:>6.1f}x")
    print(f"least {min(ratios):.1f}x, median {statistics.median(ratios):.1f}x")
    if different:
        raise SystemExit(f"other results: {', '.join(different)}")


if __name__ == "__main__":
    main()

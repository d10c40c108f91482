"""Random kernels launched: in Triton's interpreter and on tiles."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support.kernel_launches import interpreted
from support.random_kernels.kernels import OUTPUTS, write_kernels

from simverify.backends.batch import interpreter
from simverify.triton_cpu import load_tiles

PROGRAMS = 3
KINDS = ((torch.float32, torch.int32), (torch.float64, torch.int64), (torch.float16, torch.int32))


@dataclass(frozen=True)
class Ran:
    """Bits of one kernel's tensors afterwards, or None where it raised something."""

    name: str
    real: Any
    tiles: Any


def ran(path: Path, seeds: range, kinds: Any = KINDS[:1]) -> Iterator[Ran]:
    """Yield what random kernels give on random numbers, of these types."""
    made = write_kernels(path, seeds)
    names = [name for name, _ in made]
    real, tiles = interpreted(path, names), load_tiles(path, names)
    for seed, (name, block) in zip(seeds, made, strict=True):
        for kind in kinds:
            numbers = _numbers(seed, block, *kind)
            yield Ran(
                name, *(_bits(getattr(x, name), block, seed, *numbers) for x in (real, tiles))
            )


def _numbers(seed: int, block: int, floats: Any, wholes: Any) -> tuple[Any, ...]:
    """Return a length, floats with zeros and sometimes what is none, and whole numbers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, min(block, 12) + 1))
    x = rng.standard_normal(3 * block + n + 8) * rng.choice([1, 1, 1, 100.0])
    x[rng.random(x.shape) < 0.1] = 0
    if seed % 3 == 0:
        x[rng.random(x.shape) < 0.05] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
    k = rng.integers(-9, 9, size=3 * block + 20)
    if seed % 2:
        k[rng.random(k.shape) < 0.2] = 2**31 - 1
    return n, torch.tensor(x, dtype=floats), torch.tensor(k, dtype=wholes)


def _bits(kernel: Any, block: int, seed: int, n: int, x: Any, k: Any) -> tuple[bytes, ...] | None:
    out = torch.zeros(PROGRAMS * OUTPUTS * block, dtype=torch.float64)
    tensors = x.clone(), k.clone(), out
    # A row that begins so near to the end of int32 wraps.
    big = 2**31 - 6 if seed % 3 == 1 else 5
    try:
        with interpreter(), np.errstate(all="ignore"):
            kernel[(PROGRAMS,)](*tensors, n, 2, 0.25, big, B=block)
    except Exception:
        return None
    return tuple(map(_of_numbers, tensors))


def _of_numbers(tensor: Any) -> bytes:
    # Which NaN it is depends on where in an array it was computed.
    elements = tensor.numpy().copy()
    if tensor.is_floating_point():
        elements[np.isnan(elements)] = np.nan
    return bytes(elements.tobytes())

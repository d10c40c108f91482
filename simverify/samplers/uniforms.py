"""The uniform random numbers of libraries, as they come."""

import msgspec
import numpy as np

from simverify.arrays import Floats
from simverify.samplers.base import UniformGenerator

DRAWS = 1 << 22
"""Numbers that are looked at: 0 comes among them where it comes once in a million."""


class UniformGrid(msgspec.Struct, frozen=True):
    """What :data:`DRAWS` numbers of a generator are.

    ``bits``: all of them are multiples of 2^-bits, and not of 2^-(bits - 1). ``different``: how
    many are different. ``least``: the smallest above 0. ``zeros``, ``ones``: how many are 0 and 1.
    """

    name: str
    package: str
    dtype: str
    bits: int
    different: int
    least: float
    largest: float
    zeros: int
    ones: int
    mean: float


def measure_grid(generator: UniformGenerator, dtype: str, seed: int = 0) -> UniformGrid:
    """Measure a generator; the same seed gives the same."""
    numbers = generator.draw(dtype, DRAWS, seed)
    values = np.unique(numbers)
    return UniformGrid(
        name=generator.name,
        package=generator.package,
        dtype=dtype,
        bits=_grid_bits(values),
        different=len(values),
        least=float(values[values > 0][0]),
        largest=float(values[-1]),
        zeros=int((numbers == 0).sum()),
        ones=int((numbers == 1).sum()),
        mean=float(numbers.mean()),
    )


def _grid_bits(values: Floats) -> int:
    scaled = np.abs(values[values != 0])
    mantissas, exponents = np.frexp(scaled)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    trailing = np.log2(whole & -whole).astype(np.int64)
    return int((53 - exponents - trailing).max(initial=0))

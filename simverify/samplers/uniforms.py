"""The uniform random numbers of libraries, as they come, and what derived generators share."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from simverify.arrays import Floats
from simverify.samplers.base import Streams, UniformGenerator

DRAWS = 1 << 22
"""Numbers that are looked at: 0 comes among them where it comes once in a million."""


class UniformGrid(msgspec.Struct, frozen=True):
    """What :data:`DRAWS` numbers of a generator are.

    ``bits``: all of them are multiples of 2^-bits, and not of 2^-(bits - 1). ``different``: how
    many are different. ``least``: the smallest above 0. ``zeros``, ``ones``: how many are 0 and 1;
    ``zero``, ``one``: their probabilities, where words were tried one by one.
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
    zero: float | None = None
    one: float | None = None


def measure_grid(generator: UniformGenerator, dtype: str, seed: int = 0) -> UniformGrid:
    """Measure a generator; the same seed gives the same."""
    numbers = generator.draw(dtype, DRAWS, seed)
    values = np.unique(numbers)
    zero, one = (None, None) if generator.ends is None else generator.ends(dtype)
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
        zero=zero,
        one=one,
    )


def _grid_bits(values: Floats) -> int:
    scaled = np.abs(values[values != 0])
    mantissas, exponents = np.frexp(scaled)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    trailing = np.log2(whole & -whole).astype(np.int64)
    return int((53 - exponents - trailing).max(initial=0))


class StreamPair(msgspec.Struct, frozen=True):
    """What two generators or keys share; ``one`` and ``other`` are Python."""

    package: str
    setting: str
    one: str
    other: str
    share: str


def measure_streams(streams: Streams) -> Iterator[StreamPair]:
    """Yield what the pairs share."""
    with streams.within():
        for one, other in streams.pairs:
            first, second = (
                np.asarray(streams.numbers(eval(words, streams.names()))) for words in (one, other)
            )
            share = shared_words(first, second)
            yield StreamPair(streams.package, streams.setting, one, other, share)


def shared_words(first: Any, second: Any) -> str:
    """Return what the numbers of two generators share, in words."""
    if np.array_equal(first, second):
        return "the same numbers"
    for start in np.flatnonzero(first == second[0]).tolist():
        if np.array_equal(first[start:], second[: len(first) - start]):
            return f"the second is the first from number {start} on"
    common = len(np.intersect1d(first, second))
    # A number of 23 bits is among 1,024 others by chance once in 8,192.
    return f"{common:,} numbers in common" if common > len(first) // 100 else "distinct"

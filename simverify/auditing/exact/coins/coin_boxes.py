"""Boxes of the cube of coins, on the grid of the values that a coin can take."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from simverify.symbolic.enumeration.endings import Tokens

Point = tuple[int, ...]
"""One grid point: coin i is ``point[i]`` * 2^-bits."""


@dataclass(frozen=True)
class Box:
    """Coins k with low <= k <= high on the grid; ``known`` are the points tried inside it.

    ``slivers`` counts the thin splits on the way here, ``halvings`` the middle splits due.
    """

    low: Point
    high: Point
    known: dict[Point, Tokens]
    slivers: int = 0
    halvings: int = 0

    def corners(self, axes: int) -> Iterator[Point]:
        """Yield the corners along the first ``axes`` axes, each once, the others being low."""
        sides = [sorted({a, b}) for a, b in zip(self.low, self.high, strict=True)]
        return itertools.product(*sides[:axes], *([low] for low in self.low[axes:]))

    def cut(self, axis: int, last: int, slivers: int, halvings: int) -> "tuple[Box, Box]":
        """Split between ``last`` and ``last`` + 1 along ``axis``."""
        high = (*self.high[:axis], last, *self.high[axis + 1 :])
        low = (*self.low[:axis], last + 1, *self.low[axis + 1 :])
        left = {k: v for k, v in self.known.items() if k[axis] <= last}
        right = {k: v for k, v in self.known.items() if k[axis] > last}
        return (
            Box(self.low, high, left, slivers, halvings),
            Box(low, self.high, right, slivers, halvings),
        )

    def share(self, scale: int) -> float:
        """Return the box's part of the cube, which has ``scale`` grid points along each axis."""
        sizes = zip(self.low, self.high, strict=True)
        return math.prod((float(b - a + 1) / scale for a, b in sizes), start=1.0)


def moved(point: Point, axis: int, value: int) -> Point:
    """Return ``point`` with ``value`` in the place of coordinate ``axis``."""
    return (*point[:axis], value, *point[axis + 1 :])


def kronecker(n: int, dimensions: int) -> list[float]:
    """Point n of the R_d sequence: even in every dimension, no point repeated."""
    root = 2.0
    for _ in range(32):
        root = (1 + root) ** (1 / (dimensions + 1))
    return [(0.5 + n * root ** -(i + 1)) % 1 for i in range(dimensions)]

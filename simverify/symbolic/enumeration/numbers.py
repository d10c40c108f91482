"""Plain numbers for the draws of a path, with which a run takes that path again."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from simverify.symbolic.draws.scalars import Uniform
from simverify.symbolic.draws.several.chains import Chain
from simverify.symbolic.draws.several.races import Racer

REJECTIONS = 2000
"""Tries to find numbers that agree with what was decided about products of draws."""

MIDDLE = (0.1, 0.9)
"""Where a plain number lies in its interval: float32 code then takes the same side."""


class Undecided:
    """One of 0..n-1, not known yet. ``shares``: how likely each is."""

    def __init__(self, weights: Sequence[float]) -> None:
        total = float(sum(weights))
        self.shares = [float(w) / total for w in weights]

    def sample(self, rng: np.random.Generator) -> int:
        """Return one at random."""
        return int(rng.choice(len(self.shares), p=self.shares))


def numbers_along(
    draws: "Sequence[Uniform | int | Undecided]",
    products: Sequence[tuple[Chain, float, bool]],
    rng: np.random.Generator,
    part: tuple[float, float],
) -> list[float | int] | None:
    """Return a number for each draw that agrees with all that was decided; None if none is found.

    ``part``: of each uniform's interval, from where to where they lie in it. ``products``: those
    that were decided, with bound and side.
    """
    for _ in range(REJECTIONS):
        arrivals: dict[Racer, float] = {}
        found = [_number_of(draw, rng, arrivals, part) for draw in draws]
        by_atom = dict(zip(map(id, draws), found, strict=True))
        if all(_agrees(product, by_atom) for product in products):
            return found
    return None


def _number_of(
    draw: "Uniform | int | Undecided",
    rng: np.random.Generator,
    arrivals: dict[Racer, float],
    part: tuple[float, float],
) -> float | int:
    if type(draw) is int:
        return draw
    # What nobody has read may be anything.
    if type(draw) is Undecided:
        return draw.sample(rng)
    return _sample(cast("Uniform", draw), rng, arrivals, part)


def _sample(
    atom: Uniform,
    rng: np.random.Generator,
    arrivals: dict[Racer, float],
    part: tuple[float, float],
) -> float:
    if isinstance(atom.owner, Racer):
        return atom.owner.sample_uniform(rng, arrivals)
    return atom.between(rng.uniform(*part))


def _agrees(product: tuple[Chain, float, bool], values: dict[int, float | int]) -> bool:
    chain, bound, below = product
    v = 1.0
    for factor in chain.factors():
        v *= values[id(factor)]
    return (v < bound) == below

"""What a generator is seeded with: a constant, entropy of the system, or draws.

Draws make as many different streams as they have values. With N values the law of what the
streams yield is off by about 1 / sqrt(N) from that of fresh ones, so draws of :data:`MIN_SEEDS`
values together count as a fresh stream, and fewer are refused.
"""

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import holds_objects
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.several.winners import decided
from simverify.symbolic.draws.uniforms import Uniform
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.streams import FRESH, Seed

MIN_SEEDS = 2**60
"""1 / sqrt(2**60) is 1e-9, the exact tier's tolerance in float64."""

_BITS_OF_A_UNIFORM = 53


def seed_of(source: Source, value: Any, constant: Callable[[Any], Seed]) -> Seed:
    """Return what a seed stands for; ``constant`` names the sequence that a plain one gives.

    Raises :class:`CannotEnumerate` for a draw of too few values.
    """
    if value is None:
        return FRESH
    value = decided(value)
    for number, seed in source.sequences.entropies:
        if value is number or (type(value) is type(number) is int and value == number):
            return seed
    parts = _parts(value)
    draws = [x for x in parts if isinstance(x, Draw)]
    if not draws:
        return constant(value)
    count = number_of_seeds(source, draws)
    if count < MIN_SEEDS:
        source.refuse(
            f"a generator seeded with one of about 2**{math.log2(max(count, 1)):.0f} drawn numbers "
            "(seed it with 64 bits, or draw from rng itself)"
        )
    return Seed(("drawn", *map(_name, parts)))


def number_of_seeds(source: Source, draws: list[Draw]) -> int:
    """Return how many different values the draws have together."""
    counts: dict[int, int] = {}
    for draw in draws:
        atom = draw.atom
        known = source.sequences.values.get(id(atom), 2**_BITS_OF_A_UNIFORM)
        if isinstance(atom, Uniform):
            known = math.ceil(known * (atom.high - atom.low))
        if draw.form.is_whole():
            low, high = draw.range()
            known = min(known, math.ceil(high - low))
        counts[id(atom)] = max(known, counts.get(id(atom), 1))
    return math.prod(counts.values())


def hand_out(source: Source, number: Any, seed: Seed) -> Any:
    """Return a drawn ``number`` that, used as a seed, gives the very stream of ``seed``."""
    source.sequences.entropies.append((number, seed))
    return number


def _parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [part for x in value for part in _parts(x)]
    if holds_objects(value):
        return [part for x in value.ravel().view(np.ndarray).tolist() for part in _parts(x)]
    return [value]


def _name(part: Any) -> Hashable:
    return (id(part.atom), part.form) if isinstance(part, Draw) else repr(part)

"""What a generator is seeded with, and its state as code sees it.

A seed is a constant, entropy of the system, or draws. Draws make as many different streams as
they have values. With N values the law of what the streams yield is off by about 1 / sqrt(N)
from that of fresh ones, so draws of :data:`MIN_SEEDS` values together count as a fresh stream,
and fewer are refused.

A state is made of plain containers around a place that cannot be read. Code that keeps one and
puts it back needs to move it about, copy it and compare it, which works; its inside would be
the generator's bits, and reading those is refused.
"""

import math
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, NoReturn

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import holds_objects
from simverify.symbolic.draws.scalars import Draw, Uniform
from simverify.symbolic.draws.several.winners import decided
from simverify.symbolic.draws.whole.mixed import Mixed
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.streams import FRESH, Seed, State

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
    draws = [x for x in parts if isinstance(x, Draw | Mixed)]
    if not draws:
        return constant(value)
    count = number_of_seeds(source, draws)
    if count < MIN_SEEDS:
        source.refuse(
            f"a generator seeded with one of about 2**{math.log2(max(count, 1)):.0f} drawn numbers "
            "(seed it with 64 bits, or draw from rng itself)"
        )
    return Seed(("drawn", *map(_name_of, parts)))


def number_of_seeds(source: Source, draws: list[Draw | Mixed]) -> int:
    """Return how many different values the draws have together."""
    counts: dict[int, int] = {}
    for draw in draws:
        atom = draw.atom
        if isinstance(draw, Mixed):
            counts[id(atom)] = max(draw.values, counts.get(id(atom), 1))
            continue
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


def _name_of(part: Any) -> Hashable:
    if isinstance(part, Mixed):
        return part.name
    return (id(part.atom), part.form) if isinstance(part, Draw) else repr(part)


class Inside:
    """What stands where a state keeps the generator's bits."""

    __array_ufunc__ = None

    def __init__(self, source: Source, family: str, state: State) -> None:
        self.source = source
        self.family = family
        self.state = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inside) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[str, Hashable, int, int]:
        return self.family, self.state.key, self.state.position, self.state.epoch

    def __copy__(self) -> "Inside":
        return self

    def __deepcopy__(self, memo: Any) -> "Inside":
        return self

    def __reduce__(self) -> Any:
        return pickled(lambda: self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__array"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        self.source.refuse(
            f"the inside of the state of {self.family} (put it back whole, or leave it alone)"
        )


for _name in (
    "getitem", "setitem", "iter", "len", "contains", "int", "index", "float", "bool", "repr",
    "str", "format", "bytes", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "rmul",
    "mod", "floordiv", "truediv", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rshift",
):  # fmt: skip
    setattr(Inside, f"__{_name}__", Inside._refuse)


def inside_of(state: Any) -> Inside | None:
    """Return what a state made here holds; None for a state of plain numbers."""
    parts = state.values() if isinstance(state, dict) else state
    if isinstance(parts, str | bytes) or not hasattr(parts, "__iter__"):
        return None
    for part in parts:
        if isinstance(part, Inside):
            return part
        if isinstance(part, dict) and (found := inside_of(part)) is not None:
            return found
    return None


def plain_state(state: Any, family: str) -> Seed:
    """Name the draws that follow a state of plain numbers."""
    return Seed(("state", family, _image(state)), f"{family} is set to a constant state")


def _image(x: Any) -> Hashable:
    if isinstance(x, dict):
        return tuple((key, _image(x[key])) for key in sorted(x))
    if isinstance(x, list | tuple):
        return tuple(map(_image, x))
    return x.tobytes() if isinstance(x, np.ndarray) else repr(x)


_PICKLED: dict[int, Callable[[], Any]] = {}
_numbers = count()


def pickled(make: Callable[[], Any]) -> tuple[Any, tuple[int]]:
    """Return what ``__reduce__`` returns for an object that ``make`` makes again, here."""
    number = next(_numbers)
    _PICKLED[number] = make
    return _unpickled, (number,)


def forget_pickled() -> None:
    """Drop what was pickled: the code that did it is no longer followed."""
    _PICKLED.clear()


def _unpickled(number: int) -> Any:
    if number not in _PICKLED:
        raise ValueError("this generator was pickled while another code was followed")
    return _PICKLED[number]()

"""The names in ``numpy.random`` and what stands for them, and for generators made before.

Where a path is repeated on chosen numbers, what stands for them is plain: the source chooses the
values, and their types are numpy's own. Each method is then called twice: numpy's own says the
type, the dtype, the shape and what it refuses; the twin that the exact tier follows says which
value the path needs. So code that minds whether it was given an ``np.uint8``, a Python float or
an array finds what it would find anywhere else.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import CannotEnumerate
from simverify.symbolic.generators.numpy.bits import BitGenerator, SymbolicBits, twins_of_bits
from simverify.symbolic.generators.numpy.rng import (
    Generator,
    RandomState,
    SymbolicGenerator,
    SymbolicRandomState,
)
from simverify.symbolic.generators.numpy.seeds import SeedSequence, SymbolicSeedSequence

_IN_PLACE = ("shuffle",)
"""Called once: numpy's own would move what the twin has to move."""

_NO_DRAW = ("spawn", "seed", "get_state", "set_state")

_RESOLUTION = {np.dtype(np.float64): 2.0**53, np.dtype(np.float32): 2.0**24}
"""Uniforms are multiples of one part in so many, and below 1."""


class PlainGenerator(SymbolicGenerator):
    """A ``numpy.random.Generator`` whose values the source chooses."""

    _calling: str | None = None


class PlainRandomState(SymbolicRandomState):
    """A ``numpy.random.RandomState`` whose values the source chooses."""

    _calling: str | None = None


def _fitted(name: str, real: Callable[..., Any], twin: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that gives the twin's value in the type of numpy's own."""

    @wraps(real)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        # numpy's methods call one another, and so do the twin's.
        if self._calling is not None:
            return (real if self._calling == "real" else twin)(self, *args, **kwargs)
        try:
            self._calling = "real"
            shown = None if name in _IN_PLACE else real(self, *args, **kwargs)
            self._calling = "twin"
            if kwargs.get("out") is not None:
                kwargs["size"] = kwargs.pop("out").shape
            value = twin(self, *args, **kwargs)
        except Exception as error:
            if self._calling == "real" or isinstance(error, CannotEnumerate):
                raise
            self.source.refuse(f"{name}(), which numpy answers")
        finally:
            self._calling = None
        return value if name in _IN_PLACE else _fit(self, name, shown, value)

    return draw


def _fit(self: Any, name: str, shown: Any, value: Any) -> Any:
    """Return ``value`` in the type and shape of ``shown``."""
    if name == "random":
        steps = _RESOLUTION.get(np.asarray(shown).dtype)
        value = value if steps is None else np.floor(np.asarray(value) * steps) / steps
    if isinstance(shown, np.ndarray):
        values = np.asarray(value)
        if values.shape != shown.shape:
            self.source.refuse(f"{name}(), which numpy gives the shape {shown.shape}")
        np.copyto(shown, values, casting="unsafe")
        return shown
    if isinstance(shown, np.generic):
        return np.asarray(value).astype(shown.dtype)[()]
    return type(shown)(value) if isinstance(shown, bool | int | float) else value


for _plain, _twin, _real in (
    (PlainGenerator, SymbolicGenerator, Generator),
    (PlainRandomState, SymbolicRandomState, RandomState),
):
    for _name in dir(_real):
        _method = getattr(_real, _name)
        if not _name.startswith("_") and _name not in _NO_DRAW and callable(_method):
            setattr(_plain, _name, _fitted(_name, _method, getattr(_twin, _name)))


HARMLESS = {"BitGenerator", "test"}
"""Names in ``numpy.random`` that make no random numbers."""

_LEGACY: Any = np.random.mtrand._rand


class Numpy:
    """The twins of one interception; ``plain``: they give numbers in numpy's own types."""

    def __init__(self, source: Source, *, plain: bool = False) -> None:
        self._source = source
        own: dict[str, Any] = {"source": source}
        self.sequence = _passing(SymbolicSeedSequence, SeedSequence, own)
        self.bits = twins_of_bits(source, self.sequence)
        own = own | {"bits": self.bits}
        generator, state = SymbolicGenerator, SymbolicRandomState
        if plain:
            generator, state = PlainGenerator, PlainRandomState
        self.generator = _passing(generator, Generator, own)
        self.generator.__str__ = lambda _: "Generator(PCG64)"
        self.state = _passing(state, RandomState, own)
        self.legacy = self.state()
        self.legacy.stream.outside = True
        self._twins: dict[int, tuple[Any, Any]] = {}
        source.on_begin.append(lambda: self.legacy.seed(None))

    def names(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield ``(module, name, what stands for it)``; unknown functions are refused."""
        known: dict[str, Any] = {
            "Generator": self.generator,
            "RandomState": self.state,
            "SeedSequence": self.sequence,
            "default_rng": self._default_rng,
            "get_bit_generator": lambda: self.legacy._bit_generator,
            **self.bits,
        }
        for name in dir(np.random):
            value = getattr(np.random, name)
            if name.startswith("_") or not callable(value) or name in HARMLESS:
                continue
            method = getattr(self.legacy, name, None)
            new = known.get(name) or method or self._refused(f"np.random.{name}")
            yield np.random, name, new
            if hasattr(np.random.mtrand, name):
                yield np.random.mtrand, name, new
        yield np.random.mtrand, "_rand", self.legacy

    def kept(self, value: Any) -> Any:
        """Return what stands for a generator that was made before, always the same; or None."""
        if isinstance(value, SymbolicGenerator | SymbolicRandomState | SymbolicBits):
            return None
        if not isinstance(value, Generator | RandomState | BitGenerator):
            return None
        if value is _LEGACY:
            return self.legacy
        if id(value) not in self._twins:
            self._twins[id(value)] = (value, self._twin(value))
        return self._twins[id(value)][1]

    def _twin(self, value: Any) -> Any:
        if isinstance(value, BitGenerator):
            made = self.bits.get(type(value).__name__)
            if made is None:
                self._source.refuse("a bit generator of an unknown kind")
            bits = made()
            bits.stream.outside = True
            return bits
        kind = self.generator if isinstance(value, Generator) else self.state
        return kind(self.kept(value._bit_generator))

    def _default_rng(self, seed: Any = None) -> Any:
        if isinstance(seed, SymbolicGenerator):
            return seed
        return self.kept(seed) if isinstance(seed, Generator) else self.generator(seed)

    def _refused(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._source.refuse(name)


def _passing(twin: Any, real: Any, own: dict[str, Any]) -> Any:
    """Return the twin's class with attributes of its own; its name is the real one's."""
    names = {"__module__": real.__module__, "__qualname__": real.__qualname__}
    return type(real.__name__, (twin,), own | names)

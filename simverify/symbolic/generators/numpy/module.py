"""The names in ``numpy.random`` and what stands for them, and for generators made before."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.numpy.bits import BitGenerator, SymbolicBits, twins_of_bits
from simverify.symbolic.generators.numpy.rng import (
    Generator,
    RandomState,
    SymbolicGenerator,
    SymbolicRandomState,
)
from simverify.symbolic.generators.numpy.seeds import SeedSequence, SymbolicSeedSequence
from simverify.symbolic.plain.numpy_plain import PlainGenerator, PlainRandomState

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

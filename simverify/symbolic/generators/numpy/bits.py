"""Symbolic twins of numpy's bit generators: the state behind a ``Generator``."""

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import CannotEnumerate
from simverify.symbolic.generators.numpy.seeds import SymbolicSeedSequence, words_of
from simverify.symbolic.generators.sampler import integer_below
from simverify.symbolic.generators.states import Inside, inside_of, pickled, plain_state, seed_of
from simverify.symbolic.streams import Seed, State, Stream

BitGenerator = np.random.BitGenerator
REAL = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64, np.random.MT19937,
    )
}  # fmt: skip
"""numpy's own; the names in ``numpy.random`` are ours while code is intercepted."""

_WORDS_OF_A_BLOCK = 4
"""Philox makes four words of one counter, and drops the rest of them when it jumps."""

_JUMPS = {
    "PCG64": 0x9E3779B97F4A7C15F39CC0605CEDC835,
    "PCG64DXSM": 0x9E3779B97F4A7C15F39CC0605CEDC835,
    "Philox": 2**128,
    "MT19937": 2**128,
}
"""Steps of ``jumped()``, in numpy's documentation; SFC64 has none."""


class SymbolicBits(BitGenerator):
    """What the twins share; the class of each is made in :func:`twins_of_bits`."""

    source: ClassVar[Source]
    sequence: ClassVar[type[SymbolicSeedSequence]]
    real: ClassVar[Any]

    def __init__(self, seed: Any = None) -> None:
        self.real.__init__(self, 0)
        self._begin(seed)

    def _begin(self, seed: Any, start: int = 0) -> None:
        self.stream = Stream()
        self._seq: Any = None
        if seed is None:
            return
        if not isinstance(seed, SymbolicSeedSequence):
            seed = self.sequence.of(seed)
        if seed.spent:
            self.source.refuse("the seed sequence of a generator that has drawn, used again")
        self._seq = seed
        name = seed.seed._replace(key=(self.real.__name__, seed.seed.key))
        self.source.sequences.seed(self.stream, name, start)

    @property
    def seed_seq(self) -> Any:
        """The seed sequence; that of entropy from the system is made when it is asked for."""
        if self._seq is None:
            self._seq = self.sequence()
            self._seq.spent = True
        return self._seq

    _seed_seq = seed_seq

    def spawn(self, n_children: int) -> list[Any]:
        """Return independent bit generators."""
        return [type(self)(seq) for seq in self.seed_seq.spawn(n_children)]

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """Integers of all bits."""
        values = 2**32 if self.real is REAL["MT19937"] else 2**64

        def one(kind: Any) -> Any:
            u = self.source.uniform(self.stream, ("raw bits", values))
            return integer_below(values, u, 0, kind)

        if size is None:
            word = one(int)
            return word if output else None
        shape = (size,) if np.ndim(size) == 0 else tuple(size)
        words = [one(np.uint64) for _ in range(math.prod(shape))]
        return words_of(words, np.dtype(np.uint64)).reshape(shape) if output else None

    @property  # type: ignore[override]
    def state(self) -> dict[str, Any]:
        """The state, whose inside cannot be read."""
        inside = Inside(self.source, self.real.__name__, self.source.sequences.state(self.stream))
        return {
            key: self.real.__name__ if key == "bit_generator" else inside
            for key in self.real(0).state
        }

    @state.setter
    def state(self, value: Any) -> None:
        self.put(value)

    def put(self, value: Any) -> None:
        """Set the state to one that was read, or to one of plain numbers."""
        name = self.real.__name__
        if isinstance(value, dict) and value.get("bit_generator") != name:
            raise ValueError(f"state must be for a {name} RNG")
        inside = inside_of(value)
        if inside is None:
            self.real(0).state = value
            self.source.sequences.seed(self.stream, plain_state(value, f"numpy's {name}"))
        elif inside.family != name:
            raise ValueError(f"state must be for a {name} RNG")
        else:
            self.source.sequences.put(self.stream, inside.state)

    def advance(self, delta: int) -> Any:
        """Go ``delta`` steps ahead, or back."""
        self.source.sequences.put(self.stream, self._ahead(int(delta), "advance()"))
        return self

    def jumped(self, jumps: int = 1) -> Any:
        """Return a bit generator far ahead."""
        ahead = self._ahead(int(jumps) * _JUMPS[self.real.__name__], "jumped()")
        twin = type(self)()
        self.source.sequences.put(twin.stream, ahead)
        return twin

    def _ahead(self, delta: int, how: str) -> State:
        sequences = self.source.sequences

        def to(position: int) -> int:
            if self.real is not REAL["Philox"]:
                return position + delta
            return _WORDS_OF_A_BLOCK * (-(-position // _WORDS_OF_A_BLOCK) + delta)

        period = 2**258 if self.real is REAL["Philox"] else 2**128
        return sequences.moved(sequences.state(self.stream), how, to, period)

    def __copy__(self) -> Any:
        twin = type(self)()
        self.source.sequences.put(twin.stream, self.source.sequences.state(self.stream))
        twin._seq = copy.copy(self.seed_seq)
        return twin

    def __deepcopy__(self, memo: Any) -> Any:
        memo[id(self)] = twin = self.__copy__()
        return twin

    def __reduce__(self) -> Any:
        twin = self.__copy__()
        return pickled(lambda: copy.copy(twin))

    def __getstate__(self) -> Any:
        return self.state, self.seed_seq

    def __setstate__(self, state: Any) -> None:
        self.put(state[0] if isinstance(state, tuple) else state)


class SymbolicPhilox(SymbolicBits):
    """Philox, which can be told its key and where to begin."""

    def __init__(self, seed: Any = None, counter: Any = None, key: Any = None) -> None:
        self.real.__init__(self, 0)
        if seed is not None and key is not None:
            raise ValueError("seed and key cannot be both used")
        if any(isinstance(x, Draw) for x in np.asarray(counter, dtype=object).ravel()):
            self.source.refuse("Philox(counter=) with a draw (draw the key instead)")
        start = 0 if counter is None else _WORDS_OF_A_BLOCK * _joined(counter, 256)
        self._begin(seed, start)
        if key is not None:
            name = seed_of(self.source, key, _constant_key)
            self.source.sequences.seed(self.stream, Seed(("Philox", name.key), name.shown), start)


def _constant_key(key: Any) -> Seed:
    number = _joined(key, 128)
    return Seed(number, f"a numpy Generator is seeded with the constant Philox key {number}")


def _joined(words: Any, bits: int) -> int:
    """Read an integer, or an array of 64-bit words, the lowest first."""
    if np.ndim(words) == 0:
        number: int = int(words) % 2**bits
        return number
    each: list[int] = np.asarray(words).tolist()
    joined = 0
    for i, word in enumerate(each):
        joined |= word << (64 * i)
    return joined


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any) -> Any:
        return self.source.refuse(f"{name} of the bit generator of rng")

    return refuse


def _interface(name: str) -> Callable[..., Any]:
    def refuse(self: Any) -> Any:
        # Compiled code asks for it where an exception would end the process: the path is
        # refused, but only after the code has had its way with numpy's own bits.
        with suppress(CannotEnumerate):
            self.source.refuse(f"{name} of the bit generator of rng")
        return getattr(BitGenerator, name).__get__(self)

    return refuse


_HARMLESS = {"lock"}
for _name in ("ctypes", "cffi", "capsule"):
    setattr(SymbolicBits, _name, property(_interface(_name)))
for _kind in REAL.values():
    for _name in dir(_kind):
        known = _name in vars(SymbolicBits) or _name in _HARMLESS or _name.startswith("__")
        if not known:
            setattr(SymbolicBits, _name, property(_refusal(_name)))


def twins_of_bits(
    source: Source, sequence: type[SymbolicSeedSequence]
) -> dict[str, type[SymbolicBits]]:
    """Return the twin of each of numpy's bit generators, by its name."""
    made: dict[str, type[SymbolicBits]] = {}
    for name, real in REAL.items():
        base = SymbolicPhilox if name == "Philox" else SymbolicBits
        space: dict[str, Any] = {"source": source, "sequence": sequence, "real": real}
        space["__module__"] = real.__module__
        if not hasattr(real, "advance"):
            space["advance"] = property(_missing(name, "advance"))
        if not hasattr(real, "jumped"):
            space["jumped"] = property(_missing(name, "jumped"))
        made[name] = type(name, (base, real), space)
    return made


def _missing(owner: str, name: str) -> Callable[..., Any]:
    def get(self: Any) -> Any:
        raise AttributeError(f"{owner!r} object has no attribute {name!r}")

    return get

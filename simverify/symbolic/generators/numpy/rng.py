"""Symbolic twins of ``numpy.random.Generator`` and ``RandomState``.

Each method draws from the current :class:`Source` what numpy's would draw in law; those
that cannot be followed, and those that a later numpy adds, refuse by name. Their state is in
:mod:`.bits`.
"""

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from simverify.symbolic.generators.numpy.bits import REAL, BitGenerator, SymbolicBits
from simverify.symbolic.generators.sampler import Sampler, each, integer_below
from simverify.symbolic.generators.states import inside_of, pickled, seed_of
from simverify.symbolic.streams import Seed, Stream

# Kept here because the names in numpy.random are ours while code is intercepted.
Generator = np.random.Generator
RandomState = np.random.RandomState

_BITS = REAL["PCG64"](0)
"""What numpy's constructors are given; nobody draws from it."""

_COPIES_SHARE = copy.copy(Generator(_BITS)).bit_generator is _BITS
_STATES_SHARE = copy.copy(RandomState(_BITS))._bit_generator is _BITS
"""Whether a shallow copy draws from the same bits, as in numpy 2."""


HANDED = object()
"""Makes the generator that the code is handed, which stays from call to call."""


class SymbolicGenerator(Sampler, Generator):
    """A ``numpy.random.Generator`` whose draws are symbolic."""

    bits: ClassVar[dict[str, type[SymbolicBits]]]
    chosen = type(Generator(np.random.PCG64(0)).choice(2))

    def __init__(self, bit_generator: Any = HANDED) -> None:
        Generator.__init__(self, _BITS)
        self._bits: SymbolicBits | None = None
        if bit_generator is None or bit_generator is HANDED:
            self.stream = Stream(outside=bit_generator is HANDED)
            return
        if isinstance(bit_generator, RandomState):
            bit_generator = bit_generator._bit_generator
        if not isinstance(bit_generator, BitGenerator):
            bit_generator = self.bits["PCG64"](bit_generator)
        if not isinstance(bit_generator, SymbolicBits):
            self.source.refuse("a bit generator that was made before and is kept in a container")
        self._bits = bit_generator
        self.stream = bit_generator.stream

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Uniform on [0, 1)."""
        if size is None and dtype is None and out is None:
            return self.source.uniform(self.stream)
        single = dtype is not None and self._typed("random", 1, dtype).dtype == np.float32
        drawn = self._into(size, out, self._single if single else self._uniform)
        return drawn.astype(np.float32) if single and size is not None and out is None else drawn

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:
        """Integers from low (inclusive) to high."""
        return self._integers("integers", low, high, size, dtype, endpoint=endpoint)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """Return a shuffled copy of one axis."""
        if axis not in (None, 0) or out is not None or np.ndim(x) != 1:
            self.source.refuse("permuted along an axis")
        return self.permutation(x)

    def spawn(self, n_children: int) -> Any:
        """Return independent generators, each a function of this one and its number."""
        return [type(self)(bits) for bits in self.bit_generator.spawn(n_children)]

    @property
    def bit_generator(self) -> Any:
        """The twin of the state."""
        if self._bits is None:
            self._bits = self.bits["PCG64"]()
            self._bits.stream = self.stream
        return self._bits

    _bit_generator = bit_generator

    def __copy__(self) -> Any:
        bits = self.bit_generator
        return type(self)(bits if _COPIES_SHARE else copy.copy(bits))

    def __deepcopy__(self, memo: Any) -> Any:
        memo[id(self)] = twin = type(self)(copy.deepcopy(self.bit_generator, memo))
        return twin

    def __reduce__(self) -> Any:
        twin = copy.deepcopy(self)
        return pickled(lambda: copy.deepcopy(twin))


class SymbolicRandomState(Sampler, RandomState):
    """A ``numpy.random.RandomState`` whose draws are symbolic."""

    legacy = True
    bits: ClassVar[dict[str, type[SymbolicBits]]]
    chosen = type(RandomState(0).choice(2))

    def __init__(self, seed: Any = None) -> None:
        RandomState.__init__(self, _BITS)
        if isinstance(seed, BitGenerator):
            if not isinstance(seed, SymbolicBits):
                self.source.refuse("a bit generator that was made before and kept in a container")
            self._bits = seed
        else:
            self._bits = self.bits["MT19937"]()
            self.seed(seed)

    @property
    def stream(self) -> Stream:  # type: ignore[override]
        """Where its bits stand."""
        return self._bits.stream

    @property
    def _bit_generator(self) -> Any:  # type: ignore[override]
        return self._bits

    def seed(self, seed: Any = None) -> None:
        """Go to the draws that follow a seed."""
        if not isinstance(self._bits, self.bits["MT19937"]):
            raise TypeError("can only re-seed a MT19937 BitGenerator")
        self.source.sequences.seed(self.stream, seed_of(self.source, seed, _legacy_seed))

    def get_state(self, legacy: bool = True) -> Any:
        """Return the state, whose inside cannot be read."""
        state = {**self._bits.state, "has_gauss": 0, "gauss": 0.0}
        if not legacy or state["bit_generator"] != "MT19937":
            return state
        return (state["bit_generator"], state["state"], state["state"], 0, 0.0)

    def set_state(self, state: Any) -> None:
        """Set the state to one that was read, or to one of plain numbers."""
        if isinstance(state, tuple | list) and (inside := inside_of(state)) is not None:
            state = {"bit_generator": state[0], "state": inside}
        elif inside_of(state) is None:
            RandomState(0).set_state(state)
            if not isinstance(state, dict):
                words, place = np.asarray(state[1]), int(state[2])
                state = {"bit_generator": state[0], "state": {"key": words, "pos": place}}
        self._bits.put({key: x for key, x in state.items() if "gauss" not in key})

    def random_sample(self, size: Any = None) -> Any:
        """Uniform on [0, 1)."""
        return each(self.source, size, self._uniform)

    random = random_sample
    ranf = random_sample
    sample = random_sample

    def rand(self, *shape: int) -> Any:
        """Uniform on [0, 1), of this shape."""
        return each(self.source, shape or None, self._uniform)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Integers from low (inclusive) to high (exclusive)."""
        return self._integers("randint", low, high, size, dtype)

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Integers from low to high, both inclusive."""
        low, high = (1, low) if high is None else (low, high)
        return self._integers("randint", low, int(high) + 1, size, np.int64)

    def tomaxint(self, size: Any = None) -> Any:
        """Integers of 63 bits."""
        kind = ("tomaxint", 2**63)
        return each(
            self.source, size, lambda: integer_below(2**63, self.source.uniform(self.stream, kind))
        )

    def __copy__(self) -> Any:
        return type(self)(self._bits if _STATES_SHARE else copy.copy(self._bits))

    def __deepcopy__(self, memo: Any) -> Any:
        memo[id(self)] = twin = type(self)(copy.deepcopy(self._bits, memo))
        return twin

    def __reduce__(self) -> Any:
        twin = copy.deepcopy(self)
        return pickled(lambda: copy.deepcopy(twin))

    def __getstate__(self) -> Any:
        return self.get_state(legacy=False)

    def __setstate__(self, state: Any) -> None:
        self.set_state(state)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.source.refuse(f"{name}() of a generator")

    return refuse


for _twin in (SymbolicGenerator, SymbolicRandomState):
    for _name in dir(_twin.__mro__[2]):
        if not _name.startswith("_") and _name not in vars(Sampler) | vars(_twin):
            setattr(_twin, _name, _refusal(_name))


def _legacy_seed(seed: Any) -> Seed:
    """Name what follows a constant in the legacy seeding, which is not that of new generators."""
    bits: Any = REAL["MT19937"](0)
    bits._legacy_seeding(seed)
    words = bits.state["state"]["key"].tobytes()
    return Seed(("legacy", words), f"numpy's legacy generator is seeded with the constant {seed}")

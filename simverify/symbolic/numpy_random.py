"""Symbolic twins of numpy's seed sequences, bit generators and generators, and of their names."""

# ruff: noqa: D102, D103 - twins are documented in the library that they stand for

__simverify_role__ = "stand-in"


import copy
import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from simverify.symbolic.arrays import make_draw_array
from simverify.symbolic.compiled import COMPILED_GENERATOR, seed_of
from simverify.symbolic.provenance import CannotEnumerate, names
from simverify.symbolic.sampler import (
    MIN_COMPILED_SEEDS,
    MIN_SEEDS,
    CopiedGenerator,
    StatePlaceholder,
    SymbolicSampler,
    bind_seed_number,
    draw_integer,
    draw_shaped,
    make_seed,
    put_state,
    state_placeholder,
)
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import RandomSource, refusing_call
from simverify.symbolic.streams import GeneratorSeed, Stream, StreamState, shared_start

# ``SeedSequence``.
#
# Of a constant it is numpy's own. Of draws, or of entropy from the system, it is a name that its
# children's names are made of.


SeedSequence = np.random.SeedSequence

_ENTROPY_BITS = 128


class SymbolicSeedSequence(CopiedGenerator, SeedSequence):
    """A ``numpy.random.SeedSequence`` that may be random."""

    source: ClassVar[RandomSource]

    def __init__(
        self,
        entropy: Any = None,
        *,
        spawn_key: Any = (),
        pool_size: int = 4,
        n_children_spawned: int = 0,
    ) -> None:
        self._entropy, self._spawn_key = [entropy], tuple(spawn_key)
        self._spawned = n_children_spawned
        self.spent = False
        if any(isinstance(x, Draw) for x in self._spawn_key):
            self.source.refuse("SeedSequence(spawn_key=) with a draw (draw the entropy instead)")
        base = make_seed(self.source, entropy, constant_seed)
        if base.shown is None:
            SeedSequence.__init__(self, 0, pool_size=pool_size)
            self._name(base.key or self.source.sequences.fresh())
        else:
            SeedSequence.__init__(self, entropy, spawn_key=self._spawn_key, pool_size=pool_size)
            built = self.source.sequences.building
            self.seed = GeneratorSeed(("pool", self.pool.tobytes()), base.shown, built)

    @classmethod
    def of(cls, seed: Any) -> "SymbolicSeedSequence":
        if isinstance(seed, SeedSequence):
            return cls(
                seed.entropy,
                spawn_key=seed.spawn_key,
                pool_size=seed.pool_size,
                n_children_spawned=seed.n_children_spawned,
            )
        if hasattr(seed, "generate_state"):
            return cls(seed.generate_state(8))
        return cls(seed)

    def _name(self, base: Hashable) -> None:
        self._base = base
        self.seed = GeneratorSeed(("sequence", base, repr(self._spawn_key), self.pool_size))

    @property
    def entropy(self) -> Any:  # type: ignore[override]
        """What it was made of; entropy of the system is drawn when it is asked for."""
        if self._entropy[0] is None:
            number = draw_integer(2**_ENTROPY_BITS, self.source.uniform())
            self._entropy[0] = bind_seed_number(self.source, number, GeneratorSeed(self._base))
        return self._entropy[0]

    @property
    def spawn_key(self) -> Any:  # type: ignore[override]
        return self._spawn_key

    @property
    def n_children_spawned(self) -> int:  # type: ignore[override]
        return self._spawned

    @property
    def state(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "entropy": self.entropy,
            "spawn_key": self._spawn_key,
            "pool_size": self.pool_size,
            "n_children_spawned": self._spawned,
        }

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return words: numpy's for a constant, else draws, always the same ones."""
        if self.seed.shown is not None:
            return SeedSequence.generate_state(self, n_words, dtype)
        stream, kind = Stream(), np.dtype(dtype)
        values = 2 ** (8 * kind.itemsize)
        self.source.sequences.seed(stream, GeneratorSeed(("words", self.seed.key)))
        uniforms = [self.source.uniform(stream, ("a word", values)) for _ in range(n_words)]
        return as_words([draw_integer(values, u, 0, kind.type) for u in uniforms], kind)

    def spawn(self, n_children: int) -> list[Any]:
        first, self._spawned = self._spawned, self._spawned + n_children
        return [self._child(i) for i in range(first, self._spawned)]

    def _child(self, i: int) -> Any:
        key = (*self._spawn_key, i)
        if self.seed.shown is not None:
            child = type(self)(self._entropy[0], spawn_key=key, pool_size=self.pool_size)
            child.seed = child.seed._replace(built=self.seed.built)
            return child
        child = type(self)(spawn_key=key, pool_size=self.pool_size)
        child._entropy = self._entropy
        child._name(self._base)
        return child

    def __copy__(self) -> Any:
        twin = type(self)(0, pool_size=self.pool_size)
        vars(twin).update(vars(self))
        if self.seed.shown is not None:
            options: Any = {"spawn_key": self._spawn_key, "pool_size": self.pool_size}
            SeedSequence.__init__(twin, self._entropy[0], **options)
        return twin


def as_words(words: list[Any], dtype: np.dtype[Any]) -> Any:
    """Return an array of draws, or numpy's own where they are numbers."""
    drawn = any(isinstance(word, Draw) for word in words)
    return make_draw_array(words, (len(words),), dtype) if drawn else np.array(words, dtype=dtype)


def constant_seed(entropy: Any) -> GeneratorSeed:
    """Name what follows a constant: by numpy's own mixing, so that equal seeds are equal."""
    image = SeedSequence(entropy).pool.tobytes()
    shown = f"a numpy Generator is seeded with the constant {entropy}"
    return GeneratorSeed(("pool", image), shown)


# Bit generators: the state behind a ``Generator``.


BitGenerator = np.random.BitGenerator
REAL_BIT_GENERATORS: dict[str, Any] = {
    name: getattr(np.random, name) for name in names("PCG64 PCG64DXSM Philox SFC64 MT19937")
}
"""numpy's own; the names in ``numpy.random`` are ours while code is intercepted."""

_WORDS_PER_BLOCK = 4
"""Philox makes four words of one counter, and drops the rest of them when it jumps."""

_JUMP_STEPS = dict.fromkeys(("PCG64", "PCG64DXSM"), 0x9E3779B97F4A7C15F39CC0605CEDC835)
_JUMP_STEPS |= dict.fromkeys(("Philox", "MT19937"), 2**128)
"""Steps of ``jumped()``, in numpy's documentation; SFC64 has none."""


class SymbolicBitGenerator(CopiedGenerator, BitGenerator):
    """What the twins share; the class of each is made in :func:`bit_generator_twins`."""

    source: ClassVar[RandomSource]
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
        return [type(self)(seq) for seq in self.seed_seq.spawn(n_children)]

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        values = 2**32 if self.real is REAL_BIT_GENERATORS["MT19937"] else 2**64

        def one(kind: Any) -> Any:
            u = self.source.uniform(self.stream, ("raw bits", values))
            return draw_integer(values, u, 0, kind)

        if size is None:
            word = one(int)
            return word if output else None
        shape = (size,) if np.ndim(size) == 0 else tuple(size)
        words = [one(np.uint64) for _ in range(math.prod(shape))]
        return as_words(words, np.dtype(np.uint64)).reshape(shape) if output else None

    @property  # type: ignore[override]
    def state(self) -> dict[str, Any]:
        """The state, whose inside cannot be read."""
        name, state = self.real.__name__, self.source.sequences.state(self.stream)
        inside = StatePlaceholder(self.source, name, state)
        return dict.fromkeys(self.real(0).state, inside) | {"bit_generator": name}

    @state.setter
    def state(self, value: Any) -> None:
        self.put(value)

    def put(self, value: Any) -> None:
        name, inside = self.real.__name__, state_placeholder(value)
        wrong = isinstance(value, dict) and value.get("bit_generator") != name
        if wrong or (inside is not None and inside.family != name):
            raise ValueError(f"state must be for a {name} RNG")
        if inside is None:
            self.real(0).state = value
        put_state(self.source, self.stream, value, f"numpy's {name}")

    def advance(self, delta: int) -> Any:
        self.source.sequences.put(self.stream, self._ahead(int(delta), "advance()"))
        return self

    def jumped(self, jumps: int = 1) -> Any:
        ahead = self._ahead(int(jumps) * _JUMP_STEPS[self.real.__name__], "jumped()")
        twin = type(self)()
        self.source.sequences.put(twin.stream, ahead)
        return twin

    def _ahead(self, delta: int, how: str) -> StreamState:
        sequences = self.source.sequences

        def to(position: int) -> int:
            if self.real is not REAL_BIT_GENERATORS["Philox"]:
                return position + delta
            return _WORDS_PER_BLOCK * (-(-position // _WORDS_PER_BLOCK) + delta)

        period = 2**258 if self.real is REAL_BIT_GENERATORS["Philox"] else 2**128
        return sequences.moved(sequences.state(self.stream), how, to, period)

    def __copy__(self) -> Any:
        twin = type(self)()
        self.source.sequences.put(twin.stream, self.source.sequences.state(self.stream))
        twin._seq = copy.copy(self.seed_seq)
        return twin

    def __getstate__(self) -> Any:
        return self.state, self.seed_seq

    def __setstate__(self, state: Any) -> None:
        self.put(state[0] if isinstance(state, tuple) else state)


class SymbolicPhilox(SymbolicBitGenerator):
    """Philox, which takes a key and a counter to begin at."""

    def __init__(self, seed: Any = None, counter: Any = None, key: Any = None) -> None:
        self.real.__init__(self, 0)
        if seed is not None and key is not None:
            raise ValueError("seed and key cannot be both used")
        if any(isinstance(x, Draw) for x in np.asarray(counter, dtype=object).ravel()):
            self.source.refuse("Philox(counter=) with a draw (draw the key instead)")
        start = 0 if counter is None else _WORDS_PER_BLOCK * _join_words(counter, 256)
        self._begin(seed, start)
        if key is not None:
            name = make_seed(self.source, key, _constant_key)
            seed = GeneratorSeed(("Philox", name.key), name.shown)
            self.source.sequences.seed(self.stream, seed, start)


def _constant_key(key: Any) -> GeneratorSeed:
    number = _join_words(key, 128)
    shown = f"a numpy Generator is seeded with the constant Philox key {number}"
    return GeneratorSeed(number, shown)


def _join_words(words: Any, bits: int) -> int:
    """Read an integer, or an array of 64-bit words, the lowest first."""
    if np.ndim(words) == 0:
        number: int = int(words) % 2**bits
        return number
    each: list[int] = np.asarray(words).tolist()
    joined = 0
    for i, word in enumerate(each):
        joined |= word << (64 * i)
    return joined


_OF_BITS = "%s of the bit generator of rng"


def _refusing_method(call: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self.source.refuse(call)


def _refusing_interface(name: str) -> Callable[..., Any]:
    def refuse(self: Any) -> Any:
        # Compiled code asks for it where an exception would end the process: the path is
        # refused, but only after the code has had its way with numpy's own bits.
        with suppress(CannotEnumerate):
            self.source.refuse(_OF_BITS % name)
        return getattr(BitGenerator, name).__get__(self)

    return refuse


for _name in ("ctypes", "cffi", "capsule"):
    setattr(SymbolicBitGenerator, _name, property(_refusing_interface(_name)))
for _name in {name for kind in REAL_BIT_GENERATORS.values() for name in dir(kind)}:
    if not (_name in vars(SymbolicBitGenerator) or _name == "lock" or _name.startswith("__")):
        setattr(SymbolicBitGenerator, _name, property(_refusing_method(_OF_BITS % _name)))


def bit_generator_twins(
    source: RandomSource, sequence: type[SymbolicSeedSequence]
) -> dict[str, type[SymbolicBitGenerator]]:
    made: dict[str, type[SymbolicBitGenerator]] = {}
    for name, real in REAL_BIT_GENERATORS.items():
        base = SymbolicPhilox if name == "Philox" else SymbolicBitGenerator
        space: dict[str, Any] = {"source": source, "sequence": sequence, "real": real}
        space["__module__"] = real.__module__
        for method in ("advance", "jumped"):
            if not hasattr(real, method):
                space[method] = property(_missing_method(name, method))
        made[name] = type(name, (base, real), space)
    return made


def _missing_method(owner: str, name: str) -> Callable[..., Any]:
    def get(self: Any) -> Any:
        raise AttributeError(f"{owner!r} object has no attribute {name!r}")

    return get


# ``Generator`` and ``RandomState``.
#
# Each method draws from the current source what numpy's would draw in law; those that cannot be
# followed, and those that a later numpy adds, refuse by name. Their state is that of a
# :class:`SymbolicBitGenerator`.


# Kept here because the names in numpy.random are replaced while code is intercepted.
Generator = np.random.Generator
RandomState = np.random.RandomState

_CONSTRUCTOR_BITS = REAL_BIT_GENERATORS["PCG64"](0)
"""Passed to numpy's constructors, and never drawn from."""

HANDED_GENERATOR = object()
"""Makes the generator that the code is handed, which stays from call to call."""


class SymbolicGenerator(SymbolicSampler, Generator):
    """A ``numpy.random.Generator`` whose draws are symbolic."""

    bits: ClassVar[dict[str, type[SymbolicBitGenerator]]]
    chosen = type(Generator(np.random.PCG64(0)).choice(2))
    copies_share = copy.copy(Generator(_CONSTRUCTOR_BITS)).bit_generator is _CONSTRUCTOR_BITS

    def __init__(self, bit_generator: Any = HANDED_GENERATOR) -> None:
        Generator.__init__(self, _CONSTRUCTOR_BITS)
        self._bits: SymbolicBitGenerator | None = None
        if bit_generator is None or bit_generator is HANDED_GENERATOR:
            self.stream = Stream(outside=bit_generator is HANDED_GENERATOR)
            return
        if isinstance(bit_generator, RandomState):
            bit_generator = bit_generator._bit_generator
        if not isinstance(bit_generator, BitGenerator):
            bit_generator = self.bits["PCG64"](bit_generator)
        if not isinstance(bit_generator, SymbolicBitGenerator):
            self.source.refuse("a bit generator that was made before and is kept in a container")
        self._bits = bit_generator
        self.stream = bit_generator.stream

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
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
        return self._integers("integers", low, high, size, dtype, endpoint=endpoint)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        if axis not in (None, 0) or out is not None or np.ndim(x) != 1:
            self.source.refuse("permuted along an axis")
        return self.permutation(x)

    def spawn(self, n_children: int) -> Any:
        return [type(self)(bits) for bits in self.bit_generator.spawn(n_children)]

    @property
    def bit_generator(self) -> Any:
        if self._bits is None:
            self._bits = self.bits["PCG64"]()
            self._bits.stream = self.stream
        return self._bits

    _bit_generator = bit_generator


class SymbolicRandomState(SymbolicSampler, RandomState):
    """A ``numpy.random.RandomState`` whose draws are symbolic."""

    legacy = True
    fewest_seeds = MIN_SEEDS
    bits: ClassVar[dict[str, type[SymbolicBitGenerator]]]
    chosen = type(RandomState(0).choice(2))
    copies_share = copy.copy(RandomState(_CONSTRUCTOR_BITS))._bit_generator is _CONSTRUCTOR_BITS

    def __init__(self, seed: Any = None) -> None:
        RandomState.__init__(self, _CONSTRUCTOR_BITS)
        if isinstance(seed, BitGenerator):
            if not isinstance(seed, SymbolicBitGenerator):
                self.source.refuse("a bit generator that was made before and kept in a container")
            self._bits = seed
        else:
            self._bits = self.bits["MT19937"]()
            self.seed(seed)

    @property
    def stream(self) -> Stream:  # type: ignore[override]
        return self._bits.stream

    @property
    def _bit_generator(self) -> Any:  # type: ignore[override]
        return self._bits

    def seed(self, seed: Any = None) -> None:
        if not isinstance(self._bits, self.bits["MT19937"]):
            raise TypeError("can only re-seed a MT19937 BitGenerator")
        if self.fewest_seeds < MIN_SEEDS and issubclass(type(seed), int | np.integer):
            seed = seed_of(seed)
        seeded = make_seed(self.source, seed, legacy_constant_seed, self.fewest_seeds)
        self.source.sequences.seed(self.stream, seeded)

    def swap_with(self, other: "SymbolicRandomState") -> None:
        """Exchange the draws of two of them."""
        for name in ("_bits", "fewest_seeds"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, theirs)
            setattr(other, name, mine)

    def get_state(self, legacy: bool = True) -> Any:
        state = {**self._bits.state, "has_gauss": 0, "gauss": 0.0}
        if not legacy or state["bit_generator"] != "MT19937":
            return state
        return (state["bit_generator"], state["state"], state["state"], 0, 0.0)

    def set_state(self, state: Any) -> None:
        if isinstance(state, tuple | list) and (inside := state_placeholder(state)) is not None:
            state = {"bit_generator": state[0], "state": inside}
        elif state_placeholder(state) is None:
            RandomState(0).set_state(state)
            if not isinstance(state, dict):
                words, place = np.asarray(state[1]), int(state[2])
                state = {"bit_generator": state[0], "state": {"key": words, "pos": place}}
        self._bits.put({key: x for key, x in state.items() if "gauss" not in key})

    def random_sample(self, size: Any = None) -> Any:
        return draw_shaped(self.source, size, self._uniform)

    random = random_sample
    ranf = random_sample
    sample = random_sample

    def rand(self, *shape: int) -> Any:
        return draw_shaped(self.source, shape or None, self._uniform)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        return self._integers("randint", low, high, size, dtype)

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        low, high = (1, low) if high is None else (low, high)
        return self._integers("randint", low, int(high) + 1, size, np.int64)

    def tomaxint(self, size: Any = None) -> Any:
        kind = ("tomaxint", 2**63)
        return draw_shaped(
            self.source, size, lambda: draw_integer(2**63, self.source.uniform(self.stream, kind))
        )

    def __getstate__(self) -> Any:
        return self.get_state(legacy=False)

    def __setstate__(self, state: Any) -> None:
        self.set_state(state)


for _twin, _real in ((SymbolicGenerator, Generator), (SymbolicRandomState, RandomState)):
    for _name in dir(_real):
        if not _name.startswith("_") and _name not in vars(SymbolicSampler) | vars(_twin):
            setattr(_twin, _name, _refusing_method(f"{_name}() of a generator"))


def legacy_constant_seed(seed: Any) -> GeneratorSeed:
    """Name what follows a constant in the legacy seeding, which is not that of new generators."""
    bits: Any = REAL_BIT_GENERATORS["MT19937"](0)
    bits._legacy_seeding(seed)
    words = bits.state["state"]["key"].tobytes()
    shown = f"numpy's legacy generator is seeded with the constant {seed}"
    return GeneratorSeed(("legacy", words), shown)


# The names in ``numpy.random``, what replaces them, and generators made before.
#
# Where a path is repeated on chosen numbers, the replacements are plain: the source chooses the
# values, and their types are numpy's own. Each method is then called twice: numpy's own says the
# type, the dtype, the shape and what it refuses; the twin that the exact tier follows says which
# value the path needs. So code that minds whether it was given an ``np.uint8``, a Python float or
# an array finds what it would find anywhere else.


_IN_PLACE_METHODS = ("shuffle",)
"""Called once: numpy's own would move what the twin has to move."""

_METHODS_WITHOUT_DRAWS = ("spawn", "seed", "get_state", "set_state")

_RESOLUTION = {np.dtype(np.float64): 2.0**53, np.dtype(np.float32): 2.0**24}
"""Uniforms are multiples of one part in so many, and below 1."""


class PlainGenerator(SymbolicGenerator):
    """A ``numpy.random.Generator`` whose values the source chooses."""


class PlainRandomState(SymbolicRandomState):
    """A ``numpy.random.RandomState`` whose values the source chooses."""


def _type_matching_method(
    name: str, real: Callable[..., Any], twin: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a method that gives the twin's value in the type of numpy's own."""

    @wraps(real)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        # numpy's methods call one another, and so do the twin's.
        if self._calling is not None:
            return (real if self._calling == "real" else twin)(self, *args, **kwargs)
        try:
            self._calling = "real"
            shown = None if name in _IN_PLACE_METHODS else real(self, *args, **kwargs)
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
        return value if name in _IN_PLACE_METHODS else _match_type(self, name, shown, value)

    return draw


def _match_type(self: Any, name: str, shown: Any, value: Any) -> Any:
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
        if not _name.startswith("_") and _name not in _METHODS_WITHOUT_DRAWS and callable(_method):
            setattr(_plain, _name, _type_matching_method(_name, _method, getattr(_twin, _name)))


NON_RANDOM_NAMES = {"BitGenerator", "test"}
"""Names in ``numpy.random`` that make no random numbers."""

_LEGACY_STATE: Any = np.random.mtrand._rand


class NumpyTwins:
    """The twins of one interception; ``plain``: they give numbers in numpy's own types."""

    def __init__(self, source: RandomSource, *, plain: bool = False) -> None:
        self._source = source
        attributes: dict[str, Any] = {"source": source}
        self.sequence = _disguised_class(SymbolicSeedSequence, SeedSequence, attributes)
        self.bits = bit_generator_twins(source, self.sequence)
        attributes = attributes | {"bits": self.bits}
        generator, state = SymbolicGenerator, SymbolicRandomState
        if plain:
            generator, state = PlainGenerator, PlainRandomState
        self.generator = _disguised_class(generator, Generator, attributes)
        self.generator.__str__ = lambda _: "Generator(PCG64)"
        self.state = _disguised_class(state, RandomState, attributes)
        self.legacy = self.state()
        self.legacy.stream.outside = True
        self._twins: dict[int, tuple[Any, Any]] = {}
        source.on_begin.append(lambda: self.legacy.seed(None))
        self.compiled = self.state()
        self.compiled.fewest_seeds = MIN_COMPILED_SEEDS
        self.compiled.stream.outside = True
        source.on_begin.append(lambda: self.compiled.seed(None))
        self._join(self.legacy.stream, _LEGACY_STATE._bit_generator)
        self._join(self.compiled.stream, COMPILED_GENERATOR)

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
            if name.startswith("_") or not callable(value) or name in NON_RANDOM_NAMES:
                continue
            method = getattr(self.legacy, name, None)
            new = known.get(name) or method or refusing_call(self._source, f"np.random.{name}")
            yield np.random, name, new
            if hasattr(np.random.mtrand, name):
                yield np.random.mtrand, name, new
        yield np.random.mtrand, "_rand", self.legacy

    def twin_of(self, value: Any) -> Any:
        """Return what stands for a generator that was made before, always the same; or None."""
        if isinstance(value, SymbolicGenerator | SymbolicRandomState | SymbolicBitGenerator):
            return None
        if not isinstance(value, Generator | RandomState | BitGenerator):
            return None
        if value is _LEGACY_STATE:
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
            self._join(bits.stream, value)
            return bits
        kind = self.generator if isinstance(value, Generator) else self.state
        return kind(self.twin_of(value._bit_generator))

    def _join(self, stream: Stream, bits: Any) -> None:
        """Begin each path where the real generator stood, if another one yields its numbers too."""
        start = shared_start(bits)
        if start is not None:
            self._source.sequences.join(stream, start)
            self._source.on_begin.append(lambda: self._source.sequences.join(stream, start))

    def _default_rng(self, seed: Any = None) -> Any:
        if isinstance(seed, SymbolicGenerator):
            return seed
        return self.twin_of(seed) if isinstance(seed, Generator) else self.generator(seed)


def _disguised_class(twin: Any, real: Any, attributes: dict[str, Any]) -> Any:
    """Return the twin's class with attributes of its own; its name is the real one's."""
    names = {"__module__": real.__module__, "__qualname__": real.__qualname__}
    return type(real.__name__, (twin,), attributes | names)

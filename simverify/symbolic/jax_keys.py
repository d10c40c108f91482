"""JAX's keys and the bits that follow them, by address.

A key is a name: of a constant, or of a draw, and of what was split off or folded in since. Its bits
are addressed by key and counter as the real generator addresses them, so that one key used twice,
shapes that share a prefix, and ``split`` and ``fold_in`` that give one key, give the same draws.
"""

# ruff: noqa: D102 - methods whose name and types say what a docstring would

__simverify_role__ = "stand-in"


from collections.abc import Callable, Hashable, Sequence
from functools import cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simverify.symbolic.forms import IDENTITY_FORM, Machine, unit_machine
from simverify.symbolic.integers import MixedInteger
from simverify.symbolic.sampler import draw_integer, make_seed
from simverify.symbolic.scalar import Draw, uniform_on_grid
from simverify.symbolic.source import RandomSource
from simverify.symbolic.streams import REUSED_BITS, GeneratorSeed, Stream

MIN_JAX_SEEDS = 2**30
"""A seed out of so many counts as a fresh key: seeds of JAX have 32 bits by default."""

_CONFIG: Any = jax.config

FOLLOWED_IMPLEMENTATIONS = ("threefry2x32", "rbg")

_UNIT_BITS = {np.dtype(np.float32): 23, np.dtype(np.float64): 52}
"""Bits of a uniform of JAX by its type; those of 16 bits are not followed."""

_ONE_PLUS: dict[tuple[Any, ...], np.dtype[Any]] = {
    (("shift", 9), ("or", 0x3F800000), ("cast", np.dtype(np.float32))): np.dtype(np.float32),
    (("shift", 12), ("or", 0x3FF << 52), ("cast", np.dtype(np.float64))): np.dtype(np.float64),
}
"""What JAX does with the bits of a word to make 1 plus a uniform of them."""


class Word:
    """The bits at one address: read once, as a uniform or as an integer."""

    __slots__ = ("_read_as", "_value", "bits", "call", "line", "source")

    def __init__(self, source: RandomSource, bits: int, line: str, call: int) -> None:
        self.source, self.bits = source, bits
        self.line, self.call = line, call
        self._read_as: Hashable = None
        self._value: Any = None

    def _read(self, how: Hashable, make: Callable[[Any], Any], among: int | None = None) -> Any:
        if self._read_as is None:
            self._read_as, self._value = how, make(self.source.uniform(among=among))
        if self._read_as != how:
            self.source.refuse(f"the same bits of a JAX key read in two ways ({self.line})")
        return self._value

    def uniform(self, dtype: np.dtype[Any], lifted: np.dtype[Any]) -> Any:
        """Return the uniform on [0, 1) that JAX makes of the word for a type of floats."""
        machine, points = _unit(lifted)

        def make(u: Any) -> Any:
            return uniform_on_grid(u, machine, points, IDENTITY_FORM)

        return self._read(("float", dtype), make)

    def below(self, high: "Word", count: int) -> Any:
        """Return one of 0..count-1, all as likely, as ``jax.random.randint`` makes it of two."""
        if high._read_as not in (None, ("high", count)):
            self.source.refuse(f"the same bits of a JAX key read in two ways ({self.line})")
        high._read_as = ("high", count)
        u = self._read(("low", count), lambda u: u, count)
        return draw_integer(count, u, 0, np.dtype(f"uint{self.bits}").type)

    def integer(self) -> Any:
        kind = np.dtype(f"uint{self.bits}").type
        return self._read("integer", lambda u: draw_integer(2**self.bits, u, 0, kind))


@cache
def _unit(dtype: np.dtype[Any]) -> tuple[Machine, int]:
    points = 2 ** _UNIT_BITS[dtype]
    return unit_machine(dtype.type, points), points


class Key:
    """A key of JAX's: ``children`` and ``words`` are those derived from it on this path.

    ``data``: its words as numbers, where it comes from a constant, ``seed``, or, ``outside``, from
    a name that the code bound before the call.
    """

    __slots__ = ("children", "data", "epoch", "impl", "outside", "seed", "widths", "words")

    def __init__(self, impl: str, epoch: int) -> None:
        self.impl, self.epoch, self.outside = impl, epoch, False
        self.data: tuple[int, ...] | None = None
        self.seed: GeneratorSeed | None = None
        self.children: dict[Hashable, Key] = {}
        self.words: dict[Hashable, Word] = {}
        self.widths: set[Hashable] = set()


class KeyWord:
    """One of the words that an old-style key consists of; it can only be moved."""

    __slots__ = ("index", "key")

    def __init__(self, key: Key, index: int) -> None:
        self.key, self.index = key, index


class KeyBook:
    """The keys of the path that is run."""

    def __init__(self, source: RandomSource, line: Callable[[], str]) -> None:
        self.source, self.line = source, line
        self._calls = 0
        self._roots: dict[Hashable, Key] = {}
        self._streams: dict[GeneratorSeed, Stream] = {}
        self._kept: dict[Hashable, tuple[Key, int]] = {}
        source.on_begin.append(self.begin)

    def begin(self) -> None:
        self._roots.clear()
        self._streams.clear()
        if len(self._kept) > 10_000:
            self._kept.clear()

    def _root(self, name: Hashable, impl: str) -> tuple[Key, bool]:
        key = self._roots.get(name)
        if key is not None:
            return key, False
        key = self._roots[name] = Key(impl, self.source.epoch)
        # Draws of this path may come again, where the key is kept.
        self.source.addressed[("jax", name)] = key
        return key, True

    def constant(self, impl: str, data: tuple[int, ...], shown: str | None = None) -> Key:
        """Return the key of these words."""
        key, new = self._root((impl, data), impl)
        if new:
            shown = shown or f"a JAX key is the constant {list(data)}"
            built = self.source.sequences.building
            key.data, key.seed = data, GeneratorSeed(("jax", impl, data), shown, built)
        return key

    def drawn(self, impl: str, value: Any) -> Key:
        """Return the key of a seed, or of words, that were drawn."""
        if impl not in FOLLOWED_IMPLEMENTATIONS:
            self.source.refuse(f"JAX keys of the kind {impl}")

        def never(seed: Any) -> GeneratorSeed:
            raise AssertionError(seed)

        seed = make_seed(self.source, value, never, least=MIN_JAX_SEEDS)
        return self._root((impl, seed.key), impl)[0]

    def current(self, key: Key) -> Key:
        """Return the key to use on this path for one that an earlier path may have kept."""
        if key.epoch == self.source.epoch:
            return key
        if key.data is not None:
            again = self.constant(key.impl, key.data)
            if key.outside:
                again.outside, again.seed = True, None
            return again
        self._once_only(key, id(key))
        return self._root(("kept", id(key)), key.impl)[0]

    def _once_only(self, key: Key, name: Hashable) -> None:
        """Note that a key that may be kept is used on this path, and report that it was before."""
        epoch = self.source.epoch
        if self._kept.setdefault(name, (key, epoch))[1] != epoch:
            self.source.find(
                "repeated-draws",
                "violation",
                f"a JAX key that stays from call to call is used again ({self.line()}), so the "
                "draws repeat",
            )

    def _used(self, key: Key) -> Key:
        key = self.current(key)
        if key.impl not in FOLLOWED_IMPLEMENTATIONS:
            self.source.refuse(f"JAX keys of the kind {key.impl}")
        return key

    def _drawn_from(self, key: Key) -> None:
        """Note that numbers are drawn with a key: with a constant one they come in every call."""
        if key.outside:
            self._once_only(key, (key.impl, key.data))
        if key.seed is not None:
            stream = self._streams.get(key.seed)
            if stream is None:
                stream = self._streams[key.seed] = Stream()
                self.source.sequences.seed(stream, key.seed)
            self.source.sequences.blame_constant(stream)

    def _child(self, key: Key, name: tuple[Any, ...]) -> Key:
        child = key.children.get(name)
        if child is None:
            if key.data is None:
                child = Key(key.impl, key.epoch)
            else:
                data = _derived(key.impl, key.data, name)
                child, new = self._root((key.impl, data), key.impl)
                if new:
                    child.data = data
                    child.outside = key.outside
                    if key.seed is not None:
                        child.seed = key.seed._replace(key=("jax", key.impl, data))
            key.children[name] = child
        return child

    def split(self, key: Key, shape: Sequence[int]) -> list[Key]:
        key, count = self._used(key), prod(shape)
        if _CONFIG.jax_threefry_partitionable:
            return [self._child(key, ("at", i)) for i in range(count)]
        if count == 1:
            return [self._child(key, ("at", 1))]
        return [self._child(key, ("of", count, i)) for i in range(count)]

    def fold_in(self, key: Key, number: Any) -> Key:
        """Return the key with a number folded in, or with draws, which make it a fresh one."""
        # A draw passes for a number.
        if not isinstance(number, Draw | MixedInteger):
            return self._child(self._used(key), ("at", int(number) & 0xFFFFFFFF))

        def never(seed: Any) -> GeneratorSeed:
            raise AssertionError(seed)

        key = self.current(key)
        seed = make_seed(self.source, number, never, least=MIN_JAX_SEEDS)
        if key.data is not None:
            # A constant that a draw is folded into is no constant any more.
            return self._root((key.impl, key.data, seed.key), key.impl)[0]
        child = key.children.get(seed.key)
        if child is None:
            child = key.children[seed.key] = Key(key.impl, key.epoch)
        return child

    def bits(self, keys: Sequence[Key], width: int, count: int) -> list[Word]:
        """Return ``count`` words of each key, in order."""
        keys = [self._used(key) for key in keys]
        self.source.make_room(len(keys) * count)
        self._calls += 1
        if keys and keys[0].impl == "rbg":
            # All words of a batch follow its first key.
            keys, count = keys[:1], len(keys) * count
        for key in keys:
            self._drawn_from(key)
        line = self.line()
        return [
            self._word(key, at, width, line) for key in keys for at in self._at(key, width, count)
        ]

    def _at(self, key: Key, width: int, count: int) -> list[Hashable]:
        counts: Hashable = width
        if key.impl == "rbg" or _CONFIG.jax_threefry_partitionable:
            places: list[Hashable] = list(range(count))
        elif width == 32:
            half = (count + 1) // 2
            ends = [j + half if j + half < count else 0 for j in range(half)]
            places = [(j, ends[j], 0) for j in range(half)]
            places += [(j, ends[j], 1) for j in range(count - half)]
        else:
            # Words of other widths share blocks in ways that are not followed.
            counts = (width, count)
            places = list(range(count))
        key.widths.add(counts)
        if len(key.widths) > 1:
            self.source.refuse("bits of two widths of one JAX key")
        return places

    def _word(self, key: Key, at: Hashable, width: int, line: str) -> Word:
        word = key.words.get(at)
        if word is None:
            word = key.words[at] = Word(self.source, width, line, self._calls)
        elif word.call != self._calls:
            where = f"{line}, both times" if word.line == line else f"{word.line} and {line}"
            self.source.find(
                REUSED_BITS,
                "warning",
                f"one JAX key is used twice ({where}), so the same random bits come again",
            )
        return word


@cache
def _derived(impl: str, data: tuple[int, ...], name: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the words of the key that JAX itself derives from a constant one."""
    with jax.core.eval_context():
        key = jax.random.wrap_key_data(jnp.array(data, np.uint32), impl=impl)
        if name[0] == "at":
            made = jax.random.fold_in(key, np.uint32(name[1]))
        else:
            made = jax.random.split(key, name[1])[name[2]]
        return tuple(np.asarray(jax.random.key_data(made)).tolist())


def one_plus_type(steps: tuple[Any, ...]) -> np.dtype[Any] | None:
    """Return the type of 1 plus a uniform, where these steps make one of the bits of a word."""
    return _ONE_PLUS.get(steps)

"""Keys of counter-based generators, and the bits that follow them, by address.

A key is a name: of a constant, or of a draw, and of what was split off or folded in since. Its bits
are addressed by key and counter as the real generator addresses them, so that one key used twice,
shapes that share a prefix, and two ways to derive one key, give the same draws. So draw JAX and
MLX.
"""

# ruff: noqa: D102 - methods whose name and types say what a docstring would

__simverify_role__ = "stand-in"


from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from simverify.symbolic.forms import IDENTITY_FORM, Machine
from simverify.symbolic.sampler import draw_integer, make_seed
from simverify.symbolic.scalar import uniform_on_grid
from simverify.symbolic.source import RandomSource
from simverify.symbolic.streams import REUSED_BITS, GeneratorSeed, Stream

MIN_KEY_SEEDS = 2**30
"""A seed out of so many counts as a fresh key: seeds have 32 bits by default."""


class Word:
    """The bits at one address: read once, as a uniform or as an integer."""

    __slots__ = ("_book", "_read_as", "_value", "bits", "call", "line")

    def __init__(self, book: "KeyBook", bits: int, line: str) -> None:
        self._book, self.bits, self.line, self.call = book, bits, line, book.calls
        self._read_as: Hashable = None
        self._value: Any = None

    def _refuse(self) -> None:
        source, one = self._book.source, self._book.one_key
        source.refuse(f"the same bits of {one} read in two ways ({self.line})")

    def _read(self, how: Hashable, make: Callable[[Any], Any], among: int | None = None) -> Any:
        if self._read_as is None:
            self._read_as, self._value = how, make(self._book.source.uniform(among=among))
        if self._read_as != how:
            self._refuse()
        return self._value

    def uniform(self, how: Hashable, machine: Machine, points: int) -> Any:
        """Return the uniform that ``machine`` makes of the word, the same one each time.

        ``how``: what the library calls that type of numbers.
        """

        def make(u: Any) -> Any:
            return uniform_on_grid(u, machine, points, IDENTITY_FORM)

        return self._read(("float", how), make)

    def below(self, high: "Word", count: int) -> Any:
        """Return one of 0..count-1, all as likely, as ``jax.random.randint`` makes it of two."""
        if high._read_as not in (None, ("high", count)):
            self._refuse()
        high._read_as = ("high", count)
        u = self._read(("low", count), lambda u: u, count)
        return draw_integer(count, u, 0, np.dtype(f"uint{self.bits}").type)

    def integer(self) -> Any:
        kind = np.dtype(f"uint{self.bits}").type
        return self._read("integer", lambda u: draw_integer(2**self.bits, u, 0, kind))


class Key:
    """A key: ``children`` and ``words`` are those derived from it on this path.

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
    """The keys of the path that is run; ``one_key``: what one is called.

    ``line``: where in the code the numbers are asked for.
    """

    one_key: ClassVar[str]

    def __init__(self, source: RandomSource, line: Callable[[], str]) -> None:
        self.source, self.line = source, line
        self.calls = 0
        self._roots: dict[Hashable, Key] = {}
        self._streams: dict[GeneratorSeed, Stream] = {}
        self._kept: dict[Hashable, tuple[Key, int]] = {}
        source.on_begin.append(self.begin)

    def begin(self) -> None:
        self._roots.clear()
        self._streams.clear()
        if len(self._kept) > 10_000:
            self._kept.clear()

    def root(self, name: Hashable, impl: str) -> tuple[Key, bool]:
        """Return the key of that name, and whether it is new on this path."""
        key = self._roots.get(name)
        if key is not None:
            return key, False
        key = self._roots[name] = Key(impl, self.source.epoch)
        # Draws of this path may come again, where the key is kept.
        self.source.addressed[(self.one_key, name)] = key
        return key, True

    def constant(self, impl: str, data: tuple[int, ...], shown: str | None = None) -> Key:
        """Return the key of these words."""
        key, new = self.root((impl, data), impl)
        if new:
            shown = shown or f"{self.one_key} is the constant {list(data)}"
            built = self.source.sequences.building
            key.data, key.seed = data, GeneratorSeed((self.one_key, impl, data), shown, built)
        return key

    def drawn(self, impl: str, value: Any) -> Key:
        """Return the key of a seed, or of words, that were drawn."""

        def never(seed: Any) -> GeneratorSeed:
            raise AssertionError(seed)

        seed = make_seed(self.source, value, never, least=MIN_KEY_SEEDS)
        return self.root((impl, seed.key), impl)[0]

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
        return self.root(("kept", id(key)), key.impl)[0]

    def _once_only(self, key: Key, name: Hashable) -> None:
        """Note that a key that may be kept is used on this path, and report that it was before."""
        epoch = self.source.epoch
        if self._kept.setdefault(name, (key, epoch))[1] != epoch:
            self.source.find(
                "repeated-draws",
                "violation",
                f"{self.one_key} that stays from call to call is used again ({self.line()}), "
                "so the draws repeat",
            )

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

    def derived(self, key: Key, name: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the words of the key that the library itself derives from a constant one."""
        raise NotImplementedError

    def child(self, key: Key, name: tuple[Any, ...]) -> Key:
        """Return a key that is derived from another."""
        child = key.children.get(name)
        if child is None:
            if key.data is None:
                child = Key(key.impl, key.epoch)
            else:
                data = self.derived(key, name)
                child, new = self.root((key.impl, data), key.impl)
                if new:
                    child.data = data
                    child.outside = key.outside
                    if key.seed is not None:
                        child.seed = key.seed._replace(key=(self.one_key, key.impl, data))
            key.children[name] = child
        return child

    def words(
        self, keys: Sequence[Key], width: int, count: int, at: Callable[[Key], list[Hashable]]
    ) -> list[Word]:
        """Return ``count`` words of each key, in order; ``at(key)``: their addresses."""
        self.source.make_room(len(keys) * count)
        self.calls += 1
        for key in keys:
            self._drawn_from(key)
        line = self.line()
        return [self._word(key, place, width, line) for key in keys for place in at(key)]

    def _word(self, key: Key, at: Hashable, width: int, line: str) -> Word:
        word = key.words.get(at)
        if word is None:
            word = key.words[at] = Word(self, width, line)
        elif word.call != self.calls:
            where = f"{line}, both times" if word.line == line else f"{word.line} and {line}"
            self.source.find(
                REUSED_BITS,
                "warning",
                f"{self.one_key} is used twice ({where}), so the same random bits come again",
            )
        return word


def words_in_blocks(count: int) -> list[Hashable]:
    """Return the addresses of 32-bit words that threefry makes of blocks of two: counters, lane."""
    half = (count + 1) // 2
    ends = [j + half if j + half < count else 0 for j in range(half)]
    places: list[Hashable] = [(j, ends[j], 0) for j in range(half)]
    return places + [(j, ends[j], 1) for j in range(count - half)]

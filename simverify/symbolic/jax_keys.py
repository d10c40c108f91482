"""JAX's keys: how it derives them, and what it makes of their bits."""

# ruff: noqa: D102 - methods whose name and types say what a docstring would

__simverify_role__ = "stand-in"


import math
from collections.abc import Hashable, Sequence
from functools import cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simverify.symbolic.forms import Machine, grid_machine, to_bfloat16, unit_machine
from simverify.symbolic.integers import MixedInteger
from simverify.symbolic.keys import MIN_KEY_SEEDS, Key, KeyBook, Word, words_in_blocks
from simverify.symbolic.sampler import make_seed
from simverify.symbolic.scalar import Draw
from simverify.symbolic.streams import GeneratorSeed

_CONFIG: Any = jax.config

FOLLOWED_IMPLEMENTATIONS = ("threefry2x32", "rbg")

BFLOAT16 = np.dtype(jnp.bfloat16)

_UNIT_BITS = {
    np.dtype(np.float64): 52,
    np.dtype(np.float32): 23,
    np.dtype(np.float16): 10,
    BFLOAT16: 7,
}
"""Bits of a uniform of JAX by its type."""


def _one_plus(shift: int, one: int, dtype: np.dtype[Any], *before: Any) -> tuple[Any, ...]:
    return (*before, ("shift", shift), ("or", one), ("cast", dtype))


_ONE_PLUS: dict[tuple[Any, ...], np.dtype[Any]] = {
    steps: steps[-1][1]
    for steps in (
        _one_plus(12, 0x3FF << 52, np.dtype(np.float64)),
        _one_plus(9, 0x3F800000, np.dtype(np.float32)),
        _one_plus(6, 0x3C00, np.dtype(np.float16)),
        _one_plus(1, 0x3F80, BFLOAT16, ("widen", np.dtype(np.uint16))),
    )
}
"""What JAX does with the bits of a word to make 1 plus a uniform of them."""


@cache
def unit_grid(dtype: np.dtype[Any]) -> tuple[Machine, int]:
    """Return the grid of JAX's uniforms on [0, 1) of a type, and its points."""
    points = 2 ** _UNIT_BITS[dtype]
    if dtype.itemsize > 2:
        return unit_machine(dtype.type, points), points
    kind = to_bfloat16 if dtype == BFLOAT16 else dtype.type
    return grid_machine(lambda k: kind(k / points), points, math.inf), points


class JaxKeyBook(KeyBook):
    """Keys of JAX's."""

    one_key = "a JAX key"

    def drawn(self, impl: str, value: Any) -> Key:
        self._must_be_followed(impl)
        return super().drawn(impl, value)

    def _must_be_followed(self, impl: str) -> None:
        if impl not in FOLLOWED_IMPLEMENTATIONS:
            self.source.refuse(f"JAX keys of the kind {impl}")

    def _used(self, key: Key) -> Key:
        key = self.current(key)
        self._must_be_followed(key.impl)
        return key

    def derived(self, key: Key, name: tuple[Any, ...]) -> tuple[int, ...]:
        assert key.data is not None
        return _derived(key.impl, key.data, name)

    def split(self, key: Key, shape: Sequence[int]) -> list[Key]:
        key, count = self._used(key), prod(shape)
        if _CONFIG.jax_threefry_partitionable:
            return [self.child(key, ("at", i)) for i in range(count)]
        if count == 1:
            return [self.child(key, ("at", 1))]
        return [self.child(key, ("of", count, i)) for i in range(count)]

    def fold_in(self, key: Key, number: Any) -> Key:
        """Return the key with a number folded in, or with draws, which make it a fresh one."""
        # A draw passes for a number.
        if not isinstance(number, Draw | MixedInteger):
            return self.child(self._used(key), ("at", int(number) & 0xFFFFFFFF))

        def never(seed: Any) -> GeneratorSeed:
            raise AssertionError(seed)

        key = self.current(key)
        seed = make_seed(self.source, number, never, least=MIN_KEY_SEEDS)
        if key.data is not None:
            # A constant that a draw is folded into is no constant any more.
            return self.root((key.impl, key.data, seed.key), key.impl)[0]
        child = key.children.get(seed.key)
        if child is None:
            child = key.children[seed.key] = Key(key.impl, key.epoch)
        return child

    def bits(self, keys: Sequence[Key], width: int, count: int) -> list[Word]:
        """Return ``count`` words of each key, in order."""
        keys = [self._used(key) for key in keys]
        if keys and keys[0].impl == "rbg":
            # All words of a batch follow its first key.
            keys, count = keys[:1], len(keys) * count
        return self.words(keys, width, count, lambda key: self._at(key, width, count))

    def _at(self, key: Key, width: int, count: int) -> list[Hashable]:
        counts: Hashable = width
        if key.impl == "rbg" or _CONFIG.jax_threefry_partitionable:
            places: list[Hashable] = list(range(count))
        elif width == 32:
            places = words_in_blocks(count)
        else:
            # Words of other widths share blocks in ways that are not followed.
            counts = (width, count)
            places = list(range(count))
        key.widths.add(counts)
        if len(key.widths) > 1:
            self.source.refuse("bits of two widths of one JAX key")
        return places


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

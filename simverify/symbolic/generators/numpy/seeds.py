"""The symbolic twin of ``numpy.random.SeedSequence``.

Of a constant it is numpy's own. Of draws, or of entropy from the system, it is a name that its
children's names are made of.
"""

from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import draw_array
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.sampler import integer_below
from simverify.symbolic.generators.states import hand_out, pickled, seed_of
from simverify.symbolic.streams import Seed, Stream

SeedSequence = np.random.SeedSequence

_ENTROPY_BITS = 128


class SymbolicSeedSequence(SeedSequence):
    """A ``numpy.random.SeedSequence`` that may be random."""

    source: ClassVar[Source]

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
        base = seed_of(self.source, entropy, constant_seed)
        if base.shown is None:
            SeedSequence.__init__(self, 0, pool_size=pool_size)
            self._name(base.key or self.source.sequences.fresh())
        else:
            SeedSequence.__init__(self, entropy, spawn_key=self._spawn_key, pool_size=pool_size)
            built = self.source.sequences.building
            self.seed = Seed(("pool", self.pool.tobytes()), base.shown, built)

    @classmethod
    def of(cls, seed: Any) -> "SymbolicSeedSequence":
        """Return the twin of what numpy takes for a seed."""
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
        self.seed = Seed(("sequence", base, repr(self._spawn_key), self.pool_size))

    @property
    def entropy(self) -> Any:  # type: ignore[override]
        """What it was made of; entropy of the system is drawn when it is asked for."""
        if self._entropy[0] is None:
            number = integer_below(2**_ENTROPY_BITS, self.source.uniform())
            self._entropy[0] = hand_out(self.source, number, Seed(self._base))
        return self._entropy[0]

    @property
    def spawn_key(self) -> Any:  # type: ignore[override]
        """Which child of a child it is."""
        return self._spawn_key

    @property
    def n_children_spawned(self) -> int:  # type: ignore[override]
        """Number of children so far."""
        return self._spawned

    @property
    def state(self) -> dict[str, Any]:  # type: ignore[override]
        """What would make it again."""
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
        self.source.sequences.seed(stream, Seed(("words", self.seed.key)))
        uniforms = [self.source.uniform(stream, ("a word", values)) for _ in range(n_words)]
        return words_of([integer_below(values, u, 0, kind.type) for u in uniforms], kind)

    def spawn(self, n_children: int) -> list[Any]:
        """Return the next children."""
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
            SeedSequence.__init__(
                twin, self._entropy[0], spawn_key=self._spawn_key, pool_size=self.pool_size
            )
        return twin

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        twin = self.__copy__()
        return pickled(lambda: twin.__copy__())


def words_of(words: list[Any], dtype: np.dtype[Any]) -> Any:
    """Return an array of draws, or numpy's own where they are numbers."""
    drawn = any(isinstance(word, Draw) for word in words)
    return draw_array(words, (len(words),), dtype) if drawn else np.array(words, dtype=dtype)


def constant_seed(entropy: Any) -> Seed:
    """Name what follows a constant: by numpy's own mixing, so that equal seeds are equal."""
    image = SeedSequence(entropy).pool.tobytes()
    return Seed(("pool", image), f"a numpy Generator is seeded with the constant {entropy}")

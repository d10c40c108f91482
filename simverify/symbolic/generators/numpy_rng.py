"""Symbolic twins of ``numpy.random.Generator`` and ``RandomState``.

Each method draws from the current :class:`Source` what numpy's would draw in law; those
that cannot be followed refuse by name.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.generators.sampler import Sampler
from simverify.symbolic.source import Stream

# Kept here because the names in numpy.random are ours while code is intercepted.
Generator = np.random.Generator
RandomState = np.random.RandomState

_OS_ENTROPY_BITS = 64


class SymbolicGenerator(Sampler, Generator):
    """A ``numpy.random.Generator`` whose draws are symbolic."""

    def __init__(self, bit_generator: Any = None) -> None:
        Generator.__init__(self, np.random.PCG64(0))
        self.stream = Stream()
        self.source.seed(self.stream, seed_key(bit_generator, "generator"))

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Uniform on [0, 1)."""
        if size is None and out is None:
            return self.source.uniform(self.stream)
        del dtype
        return self._into(size, out, self._uniform)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = None,
        endpoint: bool = False,
    ) -> Any:
        """Integers from low (inclusive) to high."""
        del dtype
        return self._integers(low, high, size, endpoint=endpoint)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """Return a shuffled copy of one axis."""
        if axis not in (None, 0) or out is not None or np.ndim(x) != 1:
            self.source.refuse("permuted along an axis")
        return self.permutation(x)

    def spawn(self, n_children: int) -> Any:
        """Return independent generators."""
        return [type(self)() for _ in range(n_children)]

    @property
    def bit_generator(self) -> Any:
        """Refuse: raw bits cannot be followed."""
        return self.source.refuse("the bit generator of rng")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.source.refuse("a copy of a generator")

    __copy__ = __reduce__ = __deepcopy__  # type: ignore[assignment]


class SymbolicRandomState(Sampler, RandomState):
    """A ``numpy.random.RandomState`` whose draws are symbolic."""

    legacy = True

    def __init__(self, seed: Any = None) -> None:
        RandomState.__init__(self, 0)
        self.stream = Stream()
        self.seed(seed)

    def seed(self, seed: Any = None) -> None:
        """Go to the draws that follow a seed."""
        self.source.seed(self.stream, seed_key(seed, "state"))

    def random_sample(self, size: Any = None) -> Any:
        """Uniform on [0, 1)."""
        return self._each(size, self._uniform)

    random = random_sample
    ranf = random_sample
    sample = random_sample

    def rand(self, *shape: int) -> Any:
        """Uniform on [0, 1), of this shape."""
        return self._each(shape or None, self._uniform)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Integers from low (inclusive) to high (exclusive)."""
        del dtype
        return self._integers(low, high, size, endpoint=False)

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Integers from low to high, both inclusive."""
        low, high = (1, low) if high is None else (low, high)
        return self._integers(low, high, size, endpoint=True)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.source.refuse("a copy of a generator")

    __copy__ = __reduce__ = __deepcopy__  # type: ignore[assignment]


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.source.refuse(f"{name}() of a generator")

    return refuse


for _twin in (SymbolicGenerator, SymbolicRandomState):
    for _name in dir(_twin.__mro__[2]):
        if not _name.startswith("_") and _name not in vars(Sampler) | vars(_twin):
            setattr(_twin, _name, _refusal(_name))


def seed_key(seed: Any, family: str) -> Hashable:
    """Name the draws that follow a seed; None if it is fresh entropy."""
    if seed is None:
        return None
    if isinstance(seed, Draw):
        return ("drawn", id(seed.atom), seed.form)
    if isinstance(seed, np.random.BitGenerator):
        seed = seed.seed_seq
    if isinstance(seed, np.random.SeedSequence):
        if np.size(seed.entropy) == 1 and int(seed.entropy).bit_length() > _OS_ENTROPY_BITS:  # type: ignore[arg-type]
            return None
        return (family, repr(seed.entropy), tuple(seed.spawn_key))
    if isinstance(seed, int | np.integer):
        return (family, repr(int(seed)), ())
    return (family, repr(seed), ())

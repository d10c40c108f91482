"""How libraries draw tokens, so that the distribution of what comes out can be computed.

A library's uniform numbers lie on a grid k / 2^bits. A token that is looked up by one of them in a
cumulative sum follows from it alone, so the grid has the exact law. A race, such as that of Gumbel
numbers, draws a number for each token; in half precision few values are left, and the law is exact
too. Nothing here is taken on trust: before a law is computed, the library's own draws are compared
with those that follow from the same seed.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints, Row

HALF = ("float16", "bfloat16")
MAX_NUMBERS = 1 << 24
"""Random numbers of a race that are drawn at once."""


@dataclass(frozen=True)
class Lookup:
    """One uniform number k / 2^bits is looked up in a cumulative sum.

    ``index(row, dtype)``: returns the token of each number of an array in [0, 1).
    ``uniforms(dtype, count, seed)``: the library's numbers after that seed. ``scans``: whether
    each draw adds up the row anew, so that fewer are compared.
    """

    bits: Mapping[str, int]
    index: Callable[[Row, str], Callable[[Floats], Ints]]
    uniforms: Callable[[str, int, int], Floats]
    scans: bool = False


@dataclass(frozen=True)
class Race:
    """Each token draws a number; the largest score wins, the first of equal ones.

    ``scores(row, dtype)``: float64 (tokens of different probability, numbers of the grid), the
    score of each on each number of its grid, and the row of each token. Of ``dtypes`` alone: in
    others the grid has too many numbers.
    """

    dtypes: tuple[str, ...]
    scores: Callable[[Row, str], tuple[Floats, Ints]]


@dataclass(frozen=True)
class Sampler:
    """A library's function that draws tokens.

    ``package``: what pip calls the library, or the name of one that a compiler brings; "" for
    Python itself. ``method``: how it draws, in words. ``cast(row, dtype)``: the row (V,) as the
    function gets it, normalised. ``draw(row, dtype, count, seed)``: tokens, int64 (count,).
    ``again``: the tokens that ought to come of a seed, where no ``lookup`` says it.
    """

    name: str
    package: str
    dtypes: tuple[str, ...]
    method: str
    cast: Callable[[Row, str], Row]
    draw: Callable[[Row, str, int, int], Ints]
    lookup: Lookup | None = None
    race: Race | None = None
    again: Callable[[Row, str, int, int], Ints] | None = field(default=None, repr=False)

    def follow(self, row: Row, dtype: str, count: int, seed: int) -> Ints | None:
        """Return the tokens that ought to come of ``seed``; None where that is not known."""
        if self.lookup is not None:
            return self.lookup.index(row, dtype)(self.lookup.uniforms(dtype, count, seed))
        return None if self.again is None else self.again(row, dtype, count, seed)


@dataclass(frozen=True)
class UniformGenerator:
    """A library's function for uniform numbers.

    ``draw(dtype, count, seed)``: float64 (count,). ``unseeded``: Python that prints a number, as
    the first thing in a process; "" where there is no number without a seed. ``ends(dtype)``: the
    probabilities of exactly 0 and exactly 1, where the library converts words that it is given.
    """

    name: str
    package: str
    dtypes: tuple[str, ...]
    draw: Callable[[str, int, int], Floats]
    unseeded: str = ""
    ends: Callable[[str], tuple[float, float]] | None = None


FIRST = 1_024
"""Numbers of two streams that are compared."""


class SeedRefused(ValueError):
    """A seed that the library's language cannot write; its text says what happens."""


@dataclass(frozen=True)
class Streams:
    """Pairs of generators or keys of a library, of which one is derived from the other's seed.

    ``pairs``: two Python expressions each, which ``names()`` has the names of. ``numbers``:
    returns the first numbers of what an expression gives. ``setting``: in words, and ``within``
    what sets it.
    """

    package: str
    names: Callable[[], dict[str, Any]]
    numbers: Callable[[Any], Any]
    pairs: tuple[tuple[str, str], ...]
    setting: str = ""
    within: Callable[[], AbstractContextManager[Any]] = nullcontext


def normalised(values: Any) -> Row:
    """Return a row (V,) that sums to 1."""
    row: Row = np.asarray(values, dtype=np.float64)
    normalised_row: Row = row / row.sum()
    return normalised_row


def numpy_cast(row: Row, dtype: str) -> Row:
    """Return what is left of a row in a type of numpy."""
    return normalised(row.astype(dtype))


def logits_of(row: Row) -> Floats:
    """Return logits (V,), of -inf where the row is 0."""
    with np.errstate(divide="ignore"):
        return np.log(row)


def as_float64(values: Any) -> Floats:
    """Return numbers as numpy has them."""
    return np.asarray(values, dtype=np.float64)


def in_parts(count: int, vocab: int) -> list[int]:
    """Return how many tokens to draw at once, one after the other."""
    most = max(1, MAX_NUMBERS // vocab)
    return [min(most, count - done) for done in range(0, count, most)]

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
from itertools import permutations
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


@dataclass(frozen=True)
class StatedLaw:
    """What a call is documented to draw.

    ``row``: the probabilities (C,) of cells; ``cell(values)``: the cell (N,) of each value, C or
    more where the value cannot be.
    """

    row: Row
    cell: Callable[[Any], Ints]


@dataclass(frozen=True)
class Call:
    """A call of a :class:`DrawFunction`.

    ``expression``: Python, such as "poisson(3.5)", whose names :attr:`DrawFunction.names` has.
    ``expected_values(count, seed)``: the values that follow from a seed, where that is known; then
    ``tv()`` is their exact total variation from the stated law, where it can be counted.
    """

    expression: str
    law: Callable[[], StatedLaw]
    expected_values: Callable[[int, int], Any] | None = None
    tv: Callable[[], float] | None = None


@dataclass(frozen=True)
class DrawFunction:
    """A library's function that draws integers, permutations or normal numbers.

    ``method``: how it draws, in words. ``names(count, seed)``: the names in calls; each function
    of them returns ``count`` values (N,) or (N, K), the first after that seed.
    ``unusual_calls``: Python, calls with unusual parameters. ``count``: how many values of each
    call are looked at.
    """

    name: str
    package: str
    method: str
    names: Callable[[int, int], dict[str, Any]]
    calls: tuple[Call, ...]
    unusual_calls: tuple[str, ...] = ()
    count: int = 1 << 18


ORDERS = 1 << 16
"""Permutations that are drawn, one call each."""

VOCAB = 152_000
"""Vocabulary size in the calls."""

_SINGLE = 4_096
"""Integers that have a cell each; more of them share 64 cells."""


def uniform_law(count: int, low: int = 0) -> StatedLaw:
    """Return the law of ``count`` equally likely integers from ``low`` on."""
    width = 1 if count <= _SINGLE else -(-count // 64)
    edges = np.minimum(np.arange(-(-count // width) + 1) * width, count)
    return StatedLaw(np.diff(edges) / count, lambda values: _cells_above(values, low, width))


def _cells_above(values: Any, low: int, width: int) -> Ints:
    above = np.asarray(values).astype(np.int64) - low
    return np.where(above < 0, np.int64(1 << 40), above // width)


def residue_law(modulus: int) -> StatedLaw:
    """Return the law of equally likely integers, by their remainder modulo ``modulus``."""
    row = np.full(modulus, 1 / modulus)
    return StatedLaw(row, lambda values: np.asarray(values, dtype=np.int64) % modulus)


def scipy_distribution(name: str, *parameters: Any) -> Any:
    """Return a distribution of ``scipy.stats``."""
    from scipy import stats  # takes most of a second

    return getattr(stats, name)(*parameters)


def scipy_law(name: str, *parameters: float) -> StatedLaw:
    """Return a law of ``scipy.stats``; its first and last cells are of the tails too."""
    law = scipy_distribution(name, *parameters)
    low = int(law.ppf(1e-9))
    high = int(min(law.isf(1e-9), low + _SINGLE))
    row = law.pmf(np.arange(low, high + 1))
    row[0], row[-1] = law.cdf(low), law.sf(high - 1)

    def cell(values: Any) -> Ints:
        given = np.asarray(values, dtype=np.float64)
        possible = (given >= law.support()[0]) & (given <= law.support()[1])
        return np.where(possible, np.clip(given, low, high) - low, len(row)).astype(np.int64)

    return StatedLaw(row, cell)


def grouped_law(name: str, *parameters: float) -> StatedLaw:
    """Return a law of ``scipy.stats`` with many values, in 64 cells of about equal probability."""
    law = scipy_distribution(name, *parameters)
    edges = law.ppf(np.arange(1, 64) / 64)
    row = np.diff(law.cdf(edges), prepend=0, append=1)
    return StatedLaw(row, lambda values: edges.searchsorted(values, side="left"))


def outcome_law(outcomes: Any, row: Any) -> StatedLaw:
    """Return a law of outcomes of K small integers each, (C, K), of probabilities ``row`` (C,)."""

    def code(values: Any) -> Ints:
        given = np.asarray(values, dtype=np.int64)
        return given @ (100 ** np.arange(given.shape[1]))

    codes = code(outcomes)
    order = np.argsort(codes)

    def cell(values: Any) -> Ints:
        given = code(values)
        place = np.minimum(np.searchsorted(codes[order], given), len(codes) - 1)
        return np.where(codes[order][place] == given, place, len(codes))

    return StatedLaw(as_float64(row)[order], cell)


def order_law(size: int, taken: int) -> StatedLaw:
    """Return the law of ``taken`` of ``size`` numbers from 0 on, without replacement, in order."""
    orders = list(permutations(range(size), taken))
    return outcome_law(orders, np.full(len(orders), 1 / len(orders)))


def repeated(function: Callable[..., Any], count: int) -> Callable[..., Ints]:
    """Return a function that calls another ``count`` times, and returns an array of the results."""
    return lambda *given, **named: np.array([function(*given, **named) for _ in range(count)])


def no_bias(*_parameters: float) -> float:
    """Return the total variation, 0: after redrawing, each value has equally many words."""
    return 0.0


def modulo_tv(bits: int, count: int) -> float:
    """Return the TV from uniform of a ``bits``-bit word modulo ``count``."""
    quotient, larger = divmod(1 << bits, count)
    # Over one denominator: larger values have one word more than others have.
    return larger * ((quotient + 1) * count - (1 << bits)) / (count << bits)


def threshold_tv(probability: float, bits: int) -> float:
    """Return how far the share of numbers k / 2^bits below a probability is from it."""
    return float(abs(np.ceil(np.ldexp(probability, bits)) / 2.0**bits - probability))


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

"""Random numbers as they come: uniform ones, what derived generators share, and integers.

The integers are those of Python, numpy and numba; other libraries' are where their samplers are.
"""

import importlib
import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np
from scipy import special

from simverify.arrays import Floats, Ints
from simverify.samplers.base import (
    ORDERS,
    VOCAB,
    Call,
    DrawFunction,
    StatedLaw,
    Streams,
    UniformGenerator,
    grouped_law,
    no_bias,
    order_law,
    outcome_law,
    repeated,
    scipy_distribution,
    scipy_law,
    uniform_law,
)
from simverify.samplers.judge import lookup_law, total_variation

DRAWS = 1 << 22
"""Numbers that are looked at: 0 comes among them where it comes once in a million."""


class UniformGrid(msgspec.Struct, frozen=True):
    """What :data:`DRAWS` numbers of a generator are.

    ``bits``: all of them are multiples of 2^-bits, and not of 2^-(bits - 1). ``different``: how
    many are different. ``least``: the smallest above 0. ``zeros``, ``ones``: how many are 0 and 1;
    ``zero``, ``one``: their probabilities, where words were tried one by one.
    """

    name: str
    package: str
    dtype: str
    bits: int
    different: int
    least: float
    largest: float
    zeros: int
    ones: int
    mean: float
    zero: float | None = None
    one: float | None = None


def measure_grid(generator: UniformGenerator, dtype: str, seed: int = 0) -> UniformGrid:
    """Measure a generator; the same seed gives the same."""
    numbers = generator.draw(dtype, DRAWS, seed)
    values = np.unique(numbers)
    zero, one = (None, None) if generator.ends is None else generator.ends(dtype)
    return UniformGrid(
        name=generator.name,
        package=generator.package,
        dtype=dtype,
        bits=_grid_bits(values),
        different=len(values),
        least=float(values[values > 0][0]),
        largest=float(values[-1]),
        zeros=int((numbers == 0).sum()),
        ones=int((numbers == 1).sum()),
        mean=float(numbers.mean()),
        zero=zero,
        one=one,
    )


def _grid_bits(values: Floats) -> int:
    scaled = np.abs(values[values != 0])
    mantissas, exponents = np.frexp(scaled)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    trailing = np.log2(whole & -whole).astype(np.int64)
    return int((53 - exponents - trailing).max(initial=0))


class StreamPair(msgspec.Struct, frozen=True):
    """What two generators or keys share; ``one`` and ``other`` are Python."""

    package: str
    setting: str
    one: str
    other: str
    share: str


def measure_streams(streams: Streams) -> Iterator[StreamPair]:
    """Yield what the pairs share."""
    with streams.within():
        for one, other in streams.pairs:
            first, second = (
                np.asarray(streams.numbers(eval(words, streams.names()))) for words in (one, other)
            )
            share = shared_words(first, second)
            yield StreamPair(streams.package, streams.setting, one, other, share)


def shared_words(first: Any, second: Any) -> str:
    """Return what the numbers of two generators share, in words."""
    if np.array_equal(first, second):
        return "the same numbers"
    for start in np.flatnonzero(first == second[0]).tolist():
        if np.array_equal(first[start:], second[: len(first) - start]):
            return f"the second is the first from number {start} on"
    common = len(np.intersect1d(first, second))
    # A number of 23 bits is among 1,024 others by chance once in 8,192.
    return f"{common:,} numbers in common" if common > len(first) // 100 else "distinct"


# Functions that draw integers: what Python and numpy make of their words.

_WORD = 1 << 32
_LARGE = 3 << 30
"""Most of the range of a word of 32 bits, so that a remainder would show."""


def _shuffled(shuffle: Callable[[Any], None]) -> Callable[[int], Any]:
    def draw(size: int) -> Any:
        items = list(range(size))
        shuffle(items)
        return items

    return draw


def _below(word: Callable[[], int], bits: int) -> Callable[[int], int]:
    """Return what draws integers below a number: some bits of a word, until they are."""

    def draw(size: int) -> int:
        kept = (size - 1 if bits == _LOW_BITS else size).bit_length()
        while True:
            value = word()
            value = value & ((1 << kept) - 1) if bits == _LOW_BITS else value >> (bits - kept)
            if value < size:
                return value

    return draw


_LOW_BITS = 0


def _from_the_end(below: Callable[[int], int], size: int) -> list[int]:
    """Return a shuffle that goes from the last place to the first."""
    items = list(range(size))
    for place in range(size - 1, 0, -1):
        other = below(place + 1)
        items[place], items[other] = items[other], items[place]
    return items


def _python_names(count: int, seed: int) -> dict[str, Any]:
    numbers = random.Random(seed)
    names = ("randrange", "randint", "sample", "choice")
    return {name: repeated(getattr(numbers, name), count) for name in names} | {
        "shuffle": repeated(_shuffled(numbers.shuffle), count)
    }


def _python_words(seed: int) -> Callable[[], int]:
    return partial(random.Random(seed).getrandbits, 32)


def _replay_python_integers(size: int, low: int, count: int, seed: int) -> Ints:
    return low + repeated(_below(_python_words(seed), 32), count)(size)


def _replay_python_orders(count: int, seed: int) -> Ints:
    return repeated(partial(_from_the_end, _below(_python_words(seed), 32)), count)(4)


def _replay_python_sample(count: int, seed: int) -> Ints:
    below = _below(_python_words(seed), 32)

    def draw() -> list[int]:
        pool, taken = list(range(4)), []
        for left in (4, 3):
            place = below(left)
            taken.append(pool[place])
            pool[place] = pool[left - 1]
        return taken

    return repeated(draw, count)()


def _python_draw(
    name: str, method: str, calls: tuple[Call, ...], *unusual_calls: str
) -> DrawFunction:
    return DrawFunction(f"random.{name}", "", method, _python_names, calls, unusual_calls, ORDERS)


_REDRAWS = "Takes as many random bits as the bound has; redraws until the number is below it"
_REDRAWN = "as many random bits as the bound has, redrawn until the number is below it"


_PYTHON_DRAWS = (
    _python_draw(
        "randrange",
        _REDRAWS,
        tuple(
            Call(
                f"randrange({size})",
                partial(uniform_law, size),
                partial(_replay_python_integers, size, 0),
                no_bias,
            )
            for size in (10, VOCAB, _LARGE)
        ),
        "randrange(0)",
        "randrange(5, 5)",
        "randrange(2.0)",
        "randrange(2.9)",
        "randrange(2**100 - 1, 2**100)",
    ),
    _python_draw(
        "randint",
        _REDRAWS,
        (
            Call(
                "randint(1, 6)",
                partial(uniform_law, 6, 1),
                partial(_replay_python_integers, 6, 1),
                no_bias,
            ),
        ),
        "randint(5, 5)",
        "randint(5, 4)",
        "randint(1, 2.5)",
    ),
    _python_draw(
        "shuffle",
        f"Fisher-Yates shuffle from the end; each index: {_REDRAWN}",
        (Call("shuffle(4)", partial(order_law, 4, 4), _replay_python_orders, no_bias),),
        "shuffle(0)",
    ),
    _python_draw(
        "sample",
        "For small populations: picks from a list; the last item fills the gap. Each index: "
        f"{_REDRAWN}",
        (Call("sample(range(4), 2)", partial(order_law, 4, 2), _replay_python_sample, no_bias),),
        "sample(range(4), 0)",
        "sample(range(4), 5)",
    ),
)

# numpy.


def numpy_draw_names(make: Callable[[int], Any], count: int, seed: int) -> dict[str, Any]:
    """Return numpy's functions that draw integers, of a generator that ``make`` has seeded."""
    numbers = make(seed)
    sized = (
        "integers",
        "randint",
        "random_integers",
        "binomial",
        "geometric",
        "hypergeometric",
        "logseries",
        "multinomial",
        "multivariate_hypergeometric",
        "negative_binomial",
        "poisson",
        "zipf",
    )
    names: dict[str, Any] = {
        name: partial(getattr(numbers, name), size=count)
        for name in sized
        if hasattr(numbers, name)
    }
    if hasattr(numbers, "permuted"):
        names["permuted"] = lambda size: numbers.permuted(
            np.tile(np.arange(size), (count, 1)), axis=1
        )
    return names | {
        "permutation": repeated(numbers.permutation, count),
        "choice": repeated(numbers.choice, count),
        "shuffle": repeated(_shuffled(numbers.shuffle), count),
    }


def _numpy_words(make: Callable[[int], Any], count: int, seed: int) -> Any:
    """Return ``count`` words of 32 bits or a few more, as numpy takes them."""
    numbers = make(seed)
    if isinstance(numbers, np.random.Generator):
        return numbers.bit_generator.random_raw(count // 2 + 1).view("<u4")
    return numbers.randint(0, _WORD, count, dtype=np.uint32)


def _replay_lemire(make: Callable[[int], Any], size: int, count: int, seed: int) -> Ints:
    """Return integers below ``size`` by Lemire's method."""
    words = _numpy_words(make, 2 * count, seed).astype(np.uint64) * np.uint64(size)
    low = words & np.uint64(_WORD - 1)
    kept = words[low >= (_WORD - size) % size] // np.uint64(_WORD)
    return np.asarray(kept[:count], dtype=np.int64)


def _lemire_tv(size: int) -> float:
    """Return 0 where Lemire's method has as many words for the first as for the last integer."""
    rest = (_WORD - size) % size

    def words(value: int) -> int:
        return -(-(value + 1) * _WORD // size) - -(-(value * _WORD + rest) // size)

    places = {0, 1, size // 3, size // 2, size - 2, size - 1}
    return 0.0 if {words(place) for place in places} == {_WORD // size} else math.nan


def _replay_masked(make: Callable[[int], Any], size: int, count: int, seed: int) -> Ints:
    words = _numpy_words(make, 3 * count, seed).astype(np.int64)
    words &= (1 << (size - 1).bit_length()) - 1
    return np.asarray(words[words < size][:count])


def _replay_numpy_orders(make: Callable[[int], Any], count: int, seed: int) -> Ints:
    words = iter(_numpy_words(make, 12 * count, seed).tolist())
    return repeated(partial(_from_the_end, _below(words.__next__, _LOW_BITS)), count)(4)


def _replay_binomial(make: Callable[[int], Any], n: int, p: float, count: int, seed: int) -> Ints:
    return _inversion(n, p)(make(seed).random(count))


def _inversion(n: int, p: float) -> Callable[[Floats], Ints]:
    """Return what finds the binomial value of each uniform number: terms are taken from it."""

    def index(u: Floats) -> Ints:
        left, values = u.copy(), np.zeros(len(u), dtype=np.int64)
        term = math.exp(n * math.log(1 - p))
        live = left > term
        for value in range(1, n + 1):
            left = np.where(live, left - term, left)
            values[live] = value
            term = (n - value + 1) * p * term / (value * (1 - p))
            live &= left > term
        return values

    return index


def _replay_geometric_search(make: Callable[[int], Any], p: float, count: int, seed: int) -> Ints:
    left = make(seed).random(count)
    values, term, reached = np.ones(count, dtype=np.int64), p, p
    while (live := left > reached).any():
        term *= 1 - p
        reached += term
        values += live
    return values


def _replay_geometric_logarithm(
    make: Callable[[int], Any], p: float, count: int, seed: int
) -> Ints:
    numbers = make(seed)
    if isinstance(numbers, np.random.Generator):
        drawn = numbers.standard_exponential(count)
    else:
        drawn = -np.log1p(-numbers.random_sample(count))
    return np.ceil(-drawn / math.log1p(-p)).astype(np.int64)


def _replay_poisson(make: Callable[[int], Any], rate: float, count: int, seed: int) -> Ints:
    numbers = iter(make(seed).random(int(2 * (rate + 1) * count)).tolist())
    least = math.exp(-rate)

    def draw() -> int:
        value, product = 0, next(numbers)
        while product > least:
            value, product = value + 1, product * next(numbers)
        return value

    return repeated(draw, count)()


def _replay_negative_binomial(
    make: Callable[[int], Any], n: int, p: float, count: int, seed: int
) -> Ints:
    numbers = make(seed)
    return repeated(lambda: numbers.poisson(numbers.gamma(n, (1 - p) / p)), count)()


def _replay_zipf(make: Callable[[int], Any], a: float, count: int, seed: int) -> Ints:
    numbers = make(seed)
    uniforms = iter(numbers.random(20 * count).tolist())
    least = (2.0**63) ** (1 - a) if isinstance(numbers, np.random.Generator) else 0.0
    power, bound = -1 / (a - 1), 2 ** (a - 1)

    def draw() -> int:
        while True:
            u, v = next(uniforms), next(uniforms)
            u = u * least + (1 - u)
            if math.log(u) * power > 63 * math.log(2) + 1:
                continue  # far too large, and perhaps for a float64
            x: int = math.floor(u**power)
            if 1 <= x < 1 << 63:
                t = (1 + 1 / x) ** (a - 1)
                if v * x * (t - 1) / (bound - 1) <= t / bound:
                    return x

    return repeated(draw, count)()


def _zipf_law(a: float) -> StatedLaw:
    """Return the law of 1 to 999 and of all that is larger."""
    row = np.arange(1, 1_000) ** -a / special.zeta(a)
    return StatedLaw(np.append(row, 1 - row.sum()), lambda values: np.minimum(values, 1_000) - 1)


def _zipf_tv(a: float) -> float:
    """Return the probability of what does not fit into int64, and is redrawn.

    That is the total variation, as all that fits comes out more often than it should.
    """
    return float(special.zeta(a, 2.0**63) / special.zeta(a))


def _multinomial_law() -> StatedLaw:
    outcomes = [x for x in itertools.product(range(4), repeat=3) if sum(x) == 3]
    return outcome_law(
        outcomes, scipy_distribution("multinomial", 3, [0.5, 0.3, 0.2]).pmf(outcomes)
    )


def _colours_law() -> StatedLaw:
    outcomes = [x for x in itertools.product(range(4), repeat=3) if sum(x) == 3 and x[2] < 3]
    return outcome_law(
        outcomes, scipy_distribution("multivariate_hypergeom", [4, 3, 2], 3).pmf(outcomes)
    )


def _numpy_draws(kind: str, make: Callable[[int], Any]) -> tuple[DrawFunction, ...]:
    """Return the draws of a numpy generator; ``make``: returns one with a seed."""
    legacy = kind == "RandomState"

    def draw(
        name: str, method: str, calls: tuple[Call, ...], *unusual_calls: str, count: int = 1 << 18
    ) -> DrawFunction:
        names = partial(numpy_draw_names, make)
        return DrawFunction(
            f"numpy.{kind}.{name}", "numpy", method, names, calls, unusual_calls, count
        )

    def order(name: str, *unusual_calls: str) -> DrawFunction:
        expression, replay = f"{name}(4)", partial(_replay_numpy_orders, make)
        method = (
            "Fisher-Yates shuffle from the end; each index: the low bits of a word, redrawn until "
            "in range"
        )
        call = Call(expression, partial(order_law, 4, 4), replay, no_bias)
        return draw(name, method, (call,), *unusual_calls, count=ORDERS)

    integers = "randint" if legacy else "integers"
    replay, tv = (_replay_masked, no_bias) if legacy else (_replay_lemire, _lemire_tv)
    parts = [
        draw(
            integers,
            "Takes the low bits of a word; redraws until they are in range; 32-bit words for up to "
            "2^32 integers"
            if legacy
            else "Takes the upper half of word times size; redraws if the lower half would bias it "
            "(Lemire); 32-bit words for up to 2^32 integers",
            tuple(
                Call(
                    f"{integers}({size})",
                    partial(uniform_law, size),
                    partial(replay, make, size),
                    partial(tv, size),
                )
                for size in (10, VOCAB, _LARGE)
            ),
            *(
                f"{integers}({words})"
                for words in ("0", "5, 5", "2.9", "nan", "-2**63, 2**63", "0, 2**63 + 1")
            ),
        ),
        draw(
            "binomial",
            "If n min(p, 1 - p) is at most 30: subtracts the probabilities in turn from one "
            "uniform number (inversion), and redraws a value more than 10 standard deviations "
            "above the mean; else BTPE",
            (
                Call(
                    "binomial(20, .3)",
                    partial(scipy_law, "binom", 20, 0.3),
                    partial(_replay_binomial, make, 20, 0.3),
                    partial(_inversion_tv, 20, 0.3),
                ),
                Call("binomial(1000, .4)", partial(scipy_law, "binom", 1000, 0.4)),
            ),
            *(
                f"binomial({words})"
                for words in (
                    "0, .5",
                    "20, 0",
                    "20, 1",
                    "20, nan",
                    "20, -.1",
                    "-1, .5",
                    "2**63 - 1, 1e-18",
                    "2**63 - 1, .5",
                )
            ),
        ),
        draw(
            "geometric",
            "If p >= 1/3: adds up the probabilities in turn until they reach one uniform number; "
            "else divides "
            + (
                "the logarithm of a 53-bit uniform number by log(1 - p)"
                if legacy
                else "a ziggurat exponential number by -log(1 - p)"
            )
            + " and rounds up",
            (
                Call(
                    "geometric(.5)",
                    partial(scipy_law, "geom", 0.5),
                    partial(_replay_geometric_search, make, 0.5),
                ),
                Call(
                    "geometric(.01)",
                    partial(scipy_law, "geom", 0.01),
                    partial(_replay_geometric_logarithm, make, 0.01),
                ),
            ),
            *(f"geometric({p})" for p in ("0", "1", "nan", "1e-10", "1e-17", "1e-300")),
        ),
        draw(
            "poisson",
            "If the rate is below 10: multiplies uniform numbers until the product is at most "
            "exp(-rate); else PTRS",
            (
                Call(
                    "poisson(3.5)",
                    partial(scipy_law, "poisson", 3.5),
                    partial(_replay_poisson, make, 3.5),
                ),
                Call("poisson(100)", partial(scipy_law, "poisson", 100)),
                Call("poisson(1e8)", partial(grouped_law, "poisson", 1e8)),
            ),
            *(f"poisson({rate})" for rate in ("0", "-1", "nan", "inf", "9.2e18", "9.3e18")),
        ),
        draw(
            "negative_binomial",
            "Draws a Poisson number whose rate is a gamma number",
            (
                Call(
                    "negative_binomial(3, .4)",
                    partial(scipy_law, "nbinom", 3, 0.4),
                    partial(_replay_negative_binomial, make, 3, 0.4),
                ),
            ),
            *(
                f"negative_binomial({words})"
                for words in ("0, .5", "3, 0", "3, 1", "3, nan", "3, 1e-18", "3, 1e-300")
            ),
        ),
        draw(
            "hypergeometric",
            "HRUA if the sample size is above 10; else one item at a time"
            if legacy
            else "HRUA if the sample size is from 10 to (good + bad - 10); else one item at a time",
            (
                Call("hypergeometric(10, 20, 8)", partial(scipy_law, "hypergeom", 30, 10, 8)),
                Call(
                    "hypergeometric(1000, 2000, 900)",
                    partial(scipy_law, "hypergeom", 3000, 1000, 900),
                ),
            ),
            *(
                f"hypergeometric({words})"
                for words in (
                    "0, 0, 0",
                    "10, 20, 0",
                    "10, 20, 31",
                    "-1, 20, 3",
                    "10**9, 10**9, 10",
                    "10**9, 10**9, 10**9",
                )
            ),
        ),
        draw(
            "logseries",
            "Kemp's method LK",
            (Call("logseries(.7)", partial(scipy_law, "logser", 0.7)),),
            *(f"logseries({p})" for p in ("0", "1", "nan", "-.1", "1 - 1e-16")),
        ),
        draw(
            "zipf",
            "Draws by rejection; redraws values above 2^63 - 1",
            tuple(
                Call(
                    f"zipf({a})",
                    partial(_zipf_law, a),
                    partial(_replay_zipf, make, a),
                    partial(_zipf_tv, a),
                )
                for a in (2.0, 1.01)
            ),
            *(f"zipf({a})" for a in ("1", "nan", "1.1")),
        ),
        draw(
            "multinomial",
            "A binomial number for each outcome in turn, from the trials that remain",
            (Call("multinomial(3, [.5, .3, .2])", _multinomial_law),),
            *(
                f"multinomial({words})"
                for words in ("0, [.5, .5]", "-1, [.5, .5]", "3, [.5, .6]", "3, [nan, .5]")
            ),
        ),
        order("permutation", "permutation(0)", "permutation(2.9)"),
        order("shuffle", "shuffle(0)"),
        draw(
            "choice",
            "Without replacement and without p: "
            + (
                "the first items of a permutation"
                if legacy
                else "a partial shuffle if there are more than 10,000 items and more than 1/50 of "
                "them are drawn; else Floyd's algorithm, with a set of the drawn items"
            ),
            (Call("choice(4, 2, replace=False)", partial(order_law, 4, 2)),),
            "choice(4, 0, replace=False)",
            "choice(4, 5, replace=False)",
            count=ORDERS,
        ),
    ]
    if not legacy:
        colours = "multivariate_hypergeometric([4, 3, 2], 3"
        parts += [
            order("permuted", "permuted(0)"),
            draw(
                "multivariate_hypergeometric",
                "method='marginals': a hypergeometric number per colour; method='count': a partial "
                "shuffle of all items",
                (
                    Call(f"{colours})", _colours_law),
                    Call(f"{colours}, method='count')", _colours_law),
                ),
                "multivariate_hypergeometric([0, 0], 0)",
                "multivariate_hypergeometric([3, 3], 7)",
                "multivariate_hypergeometric([10**9, 10], 5)",
            ),
        ]
    return tuple(parts)


def _inversion_tv(n: int, p: float) -> float:
    law = lookup_law(_inversion(n, p), n + 1, 53)
    return total_variation(law, scipy_distribution("binom", n, p).pmf(np.arange(n + 1)))


# numba.


@cache
def _numba_calls(name: str) -> Callable[..., Any]:
    function = getattr(np.random, name)

    @importlib.import_module("numba").njit  # type: ignore[untyped-decorator]
    def draw(count: int, seed: int, *given: Any) -> Ints:
        np.random.seed(seed)  # noqa: NPY002
        drawn = np.empty(count, dtype=np.int64)
        for place in range(count):
            drawn[place] = function(*given)
        return drawn

    return draw  # type: ignore[no-any-return]


@cache
def _numba_permutations() -> Callable[[int, int, int], Any]:
    @importlib.import_module("numba").njit  # type: ignore[untyped-decorator]
    def draw(count: int, seed: int, size: int) -> Any:
        np.random.seed(seed)  # noqa: NPY002
        drawn = np.empty((count, size), dtype=np.int64)
        for place in range(count):
            drawn[place] = np.random.permutation(size)  # noqa: NPY002
        return drawn

    return draw  # type: ignore[no-any-return]


def _numba_draw_names(count: int, seed: int) -> dict[str, Any]:
    def compiled(name: str) -> Callable[..., Any]:
        return lambda *given: _numba_calls(name)(count, seed, *given)

    names = "randint", "binomial", "geometric", "poisson", "negative_binomial", "hypergeometric"
    return {name: compiled(name) for name in (*names, "logseries", "zipf")} | {
        "permutation": lambda size: _numba_permutations()(count, seed, size)
    }


def _replay_numpy(expression: str, count: int, seed: int) -> Any:
    return eval(expression, numpy_draw_names(np.random.RandomState, count, seed))


def _numba_draw(
    name: str,
    expression: str,
    law: Callable[[], Any],
    *unusual_calls: str,
    tv: Callable[[], float] | None = None,
    method: str = "",
) -> DrawFunction:
    """Return a draw of numba's; without a ``method``, its numbers are numpy's of that seed."""
    replay = None if method else partial(_replay_numpy, expression)
    call = Call(expression, law, replay, tv)
    method = method or "The same numbers as numpy's RandomState with that seed"
    written = tuple(f"{name}({one})" for one in unusual_calls)
    title = f"numba.random.{name}"
    return DrawFunction(title, "numba", method, _numba_draw_names, (call,), written, ORDERS)


_NUMBA_DRAWS = (
    _numba_draw(
        "randint", f"randint(0, {VOCAB})", partial(uniform_law, VOCAB), "5, 5", "5, 3", tv=no_bias
    ),
    _numba_draw(
        "binomial",
        "binomial(20, .3)",
        partial(scipy_law, "binom", 20, 0.3),
        *("0, .5", "20, 0.", "20, 1.", "20, nan", "20, -.1", "-1, .5"),
    ),
    _numba_draw(
        "geometric",
        "geometric(.01)",
        partial(scipy_law, "geom", 0.01),
        *("0.", "1.", "nan", "1e-17"),
    ),
    _numba_draw(
        "poisson",
        "poisson(3.5)",
        partial(scipy_law, "poisson", 3.5),
        *("0.", "-1.", "inf", "1e19"),
    ),
    _numba_draw(
        "negative_binomial",
        "negative_binomial(3, .4)",
        partial(scipy_law, "nbinom", 3, 0.4),
        method="Draws a Poisson number whose rate is a gamma number; the numbers are not numpy's",
    ),
    _numba_draw(
        "hypergeometric",
        "hypergeometric(10, 20, 8)",
        partial(scipy_law, "hypergeom", 30, 10, 8),
    ),
    _numba_draw("logseries", "logseries(.7)", partial(scipy_law, "logser", 0.7)),
    _numba_draw("permutation", "permutation(4)", partial(order_law, 4, 4), tv=no_bias),
)


DRAW_FUNCTIONS = (
    *_PYTHON_DRAWS,
    *_numpy_draws("Generator", np.random.default_rng),
    *_numpy_draws("RandomState", np.random.RandomState),
    *_NUMBA_DRAWS,
)

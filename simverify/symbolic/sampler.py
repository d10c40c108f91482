"""Draws that numpy's generators share, their seeds, and their state as code sees it."""

# ruff: noqa: D102, D103 - twins are documented in the library that they stand for

__simverify_role__ = "stand-in"


import copy
import math
import operator
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from itertools import count
from typing import Any, ClassVar, NoReturn

import numpy as np

from simverify.symbolic.arrays import (
    DrawArray,
    holds_objects,
    log_of,
    make_draw_array,
    resolve_winners,
)
from simverify.symbolic.forms import (
    DOUBLE_POINTS,
    IDENTITY_FORM,
    PYTHON_SINGLE_UNIFORM,
    SINGLE_POINTS,
    integer_machine,
)
from simverify.symbolic.integers import FEW_CELLS, MixedInteger
from simverify.symbolic.provenance import FloatOfDraw, names
from simverify.symbolic.scalar import MIN_CONTINUOUS_RANGE, Draw, Uniform, uniform_on_grid
from simverify.symbolic.source import RandomSource
from simverify.symbolic.streams import FRESH_SEED, GeneratorSeed, Stream, StreamState

# Weighted choices, with numpy's own checks, one by one without replacement.


_SUM_TOLERANCE = 1.5e-8


def checked_cdf(p: Any, n: int) -> list[float]:
    """Return the running sums of ``p``, after numpy's own checks."""
    row = np.asarray(p, dtype=np.float64)
    if row.shape != (n,):
        raise ValueError("a and p must have same size")
    floats = isinstance(p, np.ndarray) and p.dtype.kind == "f"
    return _cached_cdf(row.tobytes(), p.dtype if floats else None)


@lru_cache(maxsize=4096)
def _cached_cdf(image: bytes, dtype: Any) -> list[float]:
    """The same for the bytes of a float64 row; code asks for the same ones on many paths."""
    row = np.frombuffer(image, dtype=np.float64)
    cdf = np.cumsum(row)
    tolerance = _SUM_TOLERANCE
    if dtype is not None:
        tolerance = max(tolerance, float(np.sqrt(np.finfo(dtype).eps)))
    if not math.isfinite(cdf[-1]):
        raise ValueError("probabilities contain NaN")
    if row.min() < 0:
        raise ValueError("probabilities are not non-negative")
    if abs(cdf[-1] - 1) > tolerance:
        raise ValueError("probabilities do not sum to 1")
    return [float(c) for c in cdf / cdf[-1]]


_MAX_TRIALS = 1_000  # of more, a number of ways to succeed is beyond a float
_MAX_FLOYD_POPULATION = 10_000  # of a larger population numpy may choose in another way

_REAL_GENERATOR = np.random.Generator(np.random.PCG64(20252))
_REAL_STATE = np.random.RandomState(20252)


class CopiedGenerator:
    """Copies and pickles of a twin are twins, whose ``__copy__`` says what they share."""

    def __copy__(self) -> Any:
        raise NotImplementedError

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        twin = copy.deepcopy(self)
        return reduce_by_factory(lambda: copy.deepcopy(twin))


class SymbolicSampler(CopiedGenerator):
    """Draws that both twins share; ``copies_share``: shallow copies draw from the same bits."""

    source: ClassVar[RandomSource]
    legacy: ClassVar[bool] = False
    copies_share: ClassVar[bool]
    chosen: ClassVar[type]
    """What an index chosen out of a number is, in the version of numpy that is installed."""
    stream: Stream
    _bit_generator: Any
    _calling: str | None = None

    def __copy__(self) -> Any:
        bits = self._bit_generator
        return type(self)(bits if self.copies_share else copy.copy(bits))  # type: ignore[call-arg]

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(copy.deepcopy(self._bit_generator, memo))  # type: ignore[call-arg]

    def _meet(self, weights: Any) -> None:
        dtype = getattr(weights, "dtype", None)
        if dtype is not None:
            self.source.meet(dtype)

    def _uniform(self) -> Any:
        return self.source.uniform(self.stream)

    def _below(self, n: int, made: str, low: int = 0, kind: Any = int) -> Any:
        """Return one of low..low+n-1, all as likely; ``made`` says how it is made of words."""
        u = self.source.uniform(self.stream, (made, n), one_word=False, among=n)
        return draw_integer(n, u, low, kind)

    def _into(self, size: Any, out: Any, one: Callable[[], Any]) -> Any:
        if out is None:
            return draw_shaped(self.source, size, one)
        if not isinstance(out, DrawArray) and self.source.plan is None:
            self.source.refuse("out= of a random draw", FloatOfDraw)
        out[...] = draw_shaped(self.source, out.shape, one)
        return out

    def _typed(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what the real library gives: for its type, and for what it refuses."""
        real = _REAL_STATE if self.legacy else _REAL_GENERATOR
        plain = [x.machine.sample if isinstance(x, Draw) else x for x in args]
        return getattr(real, name)(*plain, **kwargs)

    def _parameters(self, name: str, size: Any, *values: Any) -> tuple[Any, Any, Any]:
        """Return two parameters and the size of what is drawn, after numpy's own checks."""
        self._typed(name, *values, size)
        first, second = map(_as_float64, values)
        if size is None:
            size = np.broadcast(first, second).shape or None
        return first, second, size

    def _single(self) -> Any:
        """Return a uniform with the bits of a float32, as a Python float."""
        u = self.source.uniform(self.stream, "float32", one_word=False)
        return uniform_on_grid(u, PYTHON_SINGLE_UNIFORM, SINGLE_POINTS)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        low, high, size = self._parameters("uniform", size, low, high)
        return low + (high - low) * draw_shaped(self.source, size, self._uniform)

    def standard_exponential(
        self, size: Any = None, dtype: Any = None, method: Any = None, out: Any = None
    ) -> Any:
        kind = ("exponential", str(dtype), method)
        single = (
            dtype is not None and self._typed("standard_exponential", 1, dtype).dtype == np.float32
        )
        drawn = self._into(size, out, lambda: self.source.exponential(self.stream, kind))
        return drawn.astype(np.float32) if single and size is not None and out is None else drawn

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        self._typed("exponential", scale, size)
        scale = _as_float64(scale)
        if size is None:
            size = np.shape(scale) or None
        drawn = self.standard_exponential(size)
        return drawn if _is_unit_scale(scale) else scale * drawn

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        loc, scale, size = self._parameters("gumbel", size, loc, scale)
        one = partial(self.source.exponential, self.stream, "gumbel")
        drawn = log_of(draw_shaped(self.source, size, one))
        return loc - (drawn if _is_unit_scale(scale) else scale * drawn)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Binomial; one trial is a coin, more trials are a fork by outcome."""
        self._meet(p)
        shape = np.broadcast(n, p).shape if size is None else size
        trials, probs = np.broadcast_arrays(n, p)
        if size is not None and trials.ndim:
            trials, probs = np.broadcast_to(trials, size), np.broadcast_to(probs, size)
        rows = zip(trials.ravel().tolist(), probs.ravel().tolist(), strict=True)
        if not trials.ndim:
            trial, prob = next(iter(rows))
            return draw_shaped(self.source, size, lambda: self._binomial(trial, prob))
        return np.array([self._binomial(t, q) for t, q in rows]).reshape(shape)

    def _binomial(self, n: int, p: float) -> int:
        if not (0 <= p <= 1 and n >= 0):
            raise ValueError("p < 0, p > 1 or p is NaN" if n >= 0 else "n < 0")
        if n > _MAX_TRIALS:
            self.source.refuse(f"binomial of {n:,} trials")
        weights = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        return self.source.pick(weights, self.stream, ("binomial", n))

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        self._meet(pvals)
        if np.ndim(n) or np.ndim(pvals) != 1:
            self.source.refuse("multinomial over a batch of rows")
        p = [float(x) for x in pvals]
        if not all(0 <= x <= 1 for x in p) or sum(p[:-1]) > 1 + 1e-12:
            raise ValueError("sum(pvals[:-1]) > 1.0, or pvals < 0, pvals > 1 or pvals is NaN")
        p[-1] = max(0.0, 1 - sum(p[:-1]))
        count = 1 if size is None else math.prod(np.atleast_1d(size).tolist())
        self.source.make_room(max(count, 1) * int(n))
        rows = np.zeros((count, len(p)), dtype=np.int64)
        for row in rows:
            for left in range(int(n), 0, -1):
                row[self.source.pick(p, self.stream, ("multinomial", left))] += 1
        return rows[0] if size is None else rows.reshape((*np.atleast_1d(size), len(p)))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, *rest: Any, **kw: Any
    ) -> Any:
        self._meet(p)
        if type(a) is int and size is None and a > 0 and not (rest or kw):
            if p is None and a > FEW_CELLS:
                return self._below(a, "integer", 0, self.chosen)
            return self.chosen(self._index(a, None if p is None else checked_cdf(p, a)))
        if rest or set(kw) - {"axis", "shuffle"} or kw.get("axis", 0) != 0:
            self.source.refuse("choice along an axis")
        count = 1 if size is None else math.prod(np.atleast_1d(size).tolist())
        self.source.make_room(max(count, int(a) if isinstance(a, int | np.integer) else 0))
        items = np.arange(a) if np.ndim(a) == 0 and not isinstance(a, Draw) else np.asarray(a)
        n = len(items)
        if n == 0:
            raise ValueError("a cannot be empty unless no samples are taken")
        if replace or count == 1:
            cdf = None if p is None else checked_cdf(p, n)
            chosen = [self._index(n, cdf) for _ in range(count)]
        elif p is not None:
            chosen = self._without_replacement(p, n, count)
        elif not kw.get("shuffle", True):
            chosen = self._in_order_found(n, count)
        else:
            chosen = self._shuffled(n)[:count]
        if size is None:
            picked = items[chosen[0]]
            return self.chosen(picked) if np.ndim(a) == 0 else picked
        return items[np.array(chosen, dtype=np.int64).reshape(np.atleast_1d(size))]

    def _without_replacement(self, p: Any, n: int, count: int) -> list[int]:
        """Return ``count`` of 0..n-1 in the order drawn, one by one, which has numpy's law."""
        checked_cdf(p, n)
        left = np.array(p, dtype=np.float64)
        if count > n:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        if np.count_nonzero(left) < count:
            raise ValueError("Fewer non-zero entries in p than size")
        chosen: list[int] = []
        for _ in range(count):
            ends = np.cumsum(left)
            chosen.append(self._index(n, (ends / ends[-1]).tolist()))
            left[chosen[-1]] = 0.0
        return chosen

    def _index(self, n: int, cdf: "list[float] | None", kind: str = "integer") -> int:
        """Return one of 0..n-1 as a number: it is an index."""
        if cdf is None:
            u = self.source.uniform(self.stream, (kind, n), one_word=False, among=n)
            cuts = [i / n for i in range(1, n)]
        else:
            u, cuts = self._uniform(), cdf[:-1]
        return locate_uniform(u, cuts)

    def _integers(
        self, name: str, low: Any, high: Any, size: Any, dtype: Any, **endpoint: Any
    ) -> Any:
        if isinstance(low, Draw) or isinstance(high, Draw):
            low, high = (x if x is None else operator.index(x) for x in (low, high))
        given = () if dtype is None else (dtype,)
        one = self._typed(name, low, high, None, *given, **endpoint)
        if high is None:
            low, high = 0, low
        if np.ndim(low) or np.ndim(high):
            self.source.refuse("integers with array bounds")
        count = int(high) + endpoint.get("endpoint", False) - int(low)
        if size is None:
            return self._below(count, "integer", int(low), type(one))
        kind = self._typed(name, low, high, 1, *given, **endpoint).dtype
        one = partial(self._below, count, "integer", int(low), kind.type)
        drawn = draw_shaped(self.source, size, one)
        return drawn if isinstance(drawn, DrawArray) else drawn.astype(kind)

    def _shuffled(self, n: int) -> list[int]:
        self.source.make_room(n)
        left = list(range(n))
        return [left.pop(self._index(len(left), None, "shuffle")) for _ in range(n)]

    def _in_order_found(self, n: int, count: int) -> list[int]:
        """Return a random set of 0..n-1 (Bentley and Floyd, Commun. ACM 30 (1987) 754-757)."""
        if count > n:
            raise ValueError("Cannot take a larger sample than population")
        if n > _MAX_FLOYD_POPULATION and count > n // 20:
            self.source.refuse("choice of many of a large population with shuffle=False")
        chosen: list[int] = []
        for last in range(n - count, n):
            drawn = self._index(last + 1, None, "shuffle")
            chosen.append(last if drawn in chosen else drawn)
        return chosen

    def permutation(self, x: Any, axis: int = 0) -> Any:
        if axis != 0:
            self.source.refuse("permutation along an axis")
        items = np.arange(x) if np.ndim(x) == 0 else np.asarray(x)
        return items[self._shuffled(len(items))]

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if axis != 0:
            self.source.refuse("shuffle along an axis")
        order = self._shuffled(len(x))
        x[:] = x[order] if isinstance(x, np.ndarray) else [x[i] for i in order]


def draw_shaped(source: RandomSource, size: Any, one: Callable[[], Any]) -> Any:
    if size is None:
        return one()
    shape = (int(size),) if np.ndim(size) == 0 else tuple(int(n) for n in size)
    source.make_room(math.prod(shape))
    return make_draw_array([one() for _ in range(math.prod(shape))], shape)


def locate_uniform(u: Any, cuts: list[float]) -> int:
    """Return how many of the ascending ``cuts`` a uniform, or its number on replay, has passed."""
    return u.locate(cuts) if isinstance(u, Uniform) else sum(u >= c for c in cuts)


def _is_unit_scale(scale: Any) -> bool:
    """Whether a scale is the number that changes nothing, as it is by default."""
    return type(scale) is float and scale == 1.0


def draw_integer(n: int, u: Any, low: int = 0, kind: Any = int) -> Any:
    """Return one of low..low+n-1, all as likely: a number if few (or on replay), else a draw."""
    if not isinstance(u, Uniform):
        return kind(low + min(int(n * u), n - 1))
    if n <= FEW_CELLS:
        return kind(low + u.locate([i / n for i in range(1, n)]))
    path: Any = u.source
    path.sequences.values[id(u)] = n
    drawn = uniform_on_grid(u, integer_machine(low, n, kind), min(n, DOUBLE_POINTS))
    form = IDENTITY_FORM.affine(n, low)
    drawn = Draw.kind(
        drawn.atom, form if n >= MIN_CONTINUOUS_RANGE else form.floor(), drawn.machine
    )
    return drawn if drawn.has_many_cells() else drawn.settle()


def _as_float64(x: Any) -> Any:
    """Return a bound as numpy computes with it."""
    if isinstance(x, Draw | DrawArray):
        return x
    return float(x) if np.ndim(x) == 0 else np.asarray(x, dtype=np.float64)


# Seeds and states of generators.
#
# A seed is a constant, entropy of the system, or draws. Draws make as many different streams as
# they have values. With N values the law of what the streams yield is off by about 1 / sqrt(N)
# from that of fresh ones, so draws of :data:`MIN_SEEDS` values together count as a fresh stream,
# and fewer are refused.
#
# A state is made of plain containers around a place that cannot be read. Code that keeps one and
# puts it back needs to move it about, copy it and compare it, which works; its inside would be
# the generator's bits, and reading those is refused.


MIN_SEEDS = 2**60
"""1 / sqrt(2**60) is 1e-9, the exact tier's tolerance in float64."""

MIN_COMPILED_SEEDS = 2**31
"""The same inside what numba compiles, whose seeds have 32 bits at most: off by 2e-5."""

_BITS_OF_A_UNIFORM = 53


def make_seed(
    source: RandomSource,
    value: Any,
    constant: Callable[[Any], GeneratorSeed],
    least: int = MIN_SEEDS,
) -> GeneratorSeed:
    """Return what a seed stands for, ``constant(seed)`` of plain ones.

    Refuses draws of fewer than ``least`` values together.
    """
    if value is None:
        return FRESH_SEED
    value = resolve_winners(value)
    for number, seed in source.sequences.entropies:
        if value is number or (type(value) is type(number) is int and value == number):
            return seed
    parts = _seed_parts(value)
    draws = [x for x in parts if isinstance(x, Draw | MixedInteger)]
    if not draws:
        return constant(value)
    count = count_seed_values(source, draws)
    if count < least:
        bits = 64 if least == MIN_SEEDS else 31
        source.refuse(
            f"a generator seeded with one of about 2**{math.log2(max(count, 1)):.0f} drawn numbers "
            f"(seed it with {bits} bits, or draw from rng itself)"
        )
    if count < MIN_SEEDS:
        source.find(
            "few-seeds",
            "warning",
            f"a generator seeded with one of about 2**{math.log2(count):.0f} drawn numbers counts "
            f"as fresh: what it yields may be off by {count**-0.5:.0e}, which no call shows",
        )
    return GeneratorSeed(("drawn", *map(_seed_part_name, parts)))


def count_seed_values(source: RandomSource, draws: list[Draw | MixedInteger]) -> int:
    """Return how many different values the draws have together."""
    counts: dict[int, int] = {}
    for draw in draws:
        atom = draw.atom
        if isinstance(draw, MixedInteger):
            counts[id(atom)] = max(draw.values, counts.get(id(atom), 1))
            continue
        known = source.sequences.values.get(id(atom), 2**_BITS_OF_A_UNIFORM)
        if isinstance(atom, Uniform):
            known = math.ceil(known * (atom.high - atom.low))
        if draw.form.is_whole():
            low, high = draw.range()
            known = min(known, math.ceil(high - low))
        counts[id(atom)] = max(known, counts.get(id(atom), 1))
    return math.prod(counts.values())


def bind_seed_number(source: RandomSource, number: Any, seed: GeneratorSeed) -> Any:
    """Return a drawn ``number`` that, used as a seed, gives the very stream of ``seed``."""
    source.sequences.entropies.append((number, seed))
    return number


def _seed_parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [part for x in value for part in _seed_parts(x)]
    if holds_objects(value):
        return [part for x in value.ravel().view(np.ndarray).tolist() for part in _seed_parts(x)]
    return [value]


def _seed_part_name(part: Any) -> Hashable:
    if isinstance(part, MixedInteger):
        return part.name
    return (id(part.atom), part.form) if isinstance(part, Draw) else repr(part)


class StatePlaceholder:
    """What stands where a state keeps the generator's bits."""

    __array_ufunc__ = None

    def __init__(self, source: RandomSource, family: str, state: StreamState) -> None:
        self.source = source
        self.family = family
        self.state = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatePlaceholder) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[str, Hashable, int, int]:
        return self.family, self.state.key, self.state.position, self.state.epoch

    def __copy__(self) -> "StatePlaceholder":
        return self

    def __deepcopy__(self, memo: Any) -> "StatePlaceholder":
        return self

    def __reduce__(self) -> Any:
        return reduce_by_factory(lambda: self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__array"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        self.source.refuse(
            f"the inside of the state of {self.family} (put it back whole, or leave it alone)"
        )


for _name in names(
    "getitem setitem iter len contains int index float bool repr str format bytes lt le gt ge add "
    "radd sub rsub mul rmul mod floordiv truediv and rand or ror xor rxor lshift rshift"
):
    setattr(StatePlaceholder, f"__{_name}__", StatePlaceholder._refuse)


def state_placeholder(state: Any) -> StatePlaceholder | None:
    """Return what a state made here holds; None for a state of plain numbers."""
    parts = state.values() if isinstance(state, dict) else state
    if isinstance(parts, str | bytes) or not hasattr(parts, "__iter__"):
        return None
    for part in parts:
        if isinstance(part, StatePlaceholder):
            return part
        if isinstance(part, dict) and (nested := state_placeholder(part)) is not None:
            return nested
    return None


def put_state(source: RandomSource, stream: Stream, state: Any, family: str) -> None:
    """Set a stream to a state that was read, or to one of plain numbers, which names its draws."""
    if (inside := state_placeholder(state)) is not None:
        source.sequences.put(stream, inside.state)
        return
    key = ("state", family, _state_image(state))
    source.sequences.seed(stream, GeneratorSeed(key, f"{family} is set to a constant state"))


def _state_image(x: Any) -> Hashable:
    if isinstance(x, dict):
        return tuple((key, _state_image(x[key])) for key in sorted(x))
    if isinstance(x, list | tuple):
        return tuple(map(_state_image, x))
    return x.tobytes() if isinstance(x, np.ndarray) else repr(x)


_PICKLED_FACTORIES: dict[int, Callable[[], Any]] = {}
_pickle_numbers = count()


def reduce_by_factory(make: Callable[[], Any]) -> tuple[Any, tuple[int]]:
    """Return what ``__reduce__`` returns for an object that ``make`` makes again, here."""
    number = next(_pickle_numbers)
    _PICKLED_FACTORIES[number] = make
    return _make_unpickled, (number,)


def clear_pickled() -> None:
    """Drop what was pickled: the code that did it is no longer followed."""
    _PICKLED_FACTORIES.clear()


def _make_unpickled(number: int) -> Any:
    if number not in _PICKLED_FACTORIES:
        raise ValueError("this generator was pickled while another code was followed")
    return _PICKLED_FACTORIES[number]()

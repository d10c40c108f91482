"""The draws that numpy's generators share, from the current source."""

import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import DrawArray, draw_array
from simverify.symbolic.draws.in_arrays.ufuncs import log_of
from simverify.symbolic.draws.scalars import Draw, Uniform, on_grid
from simverify.symbolic.draws.values.forms import IDENTITY
from simverify.symbolic.draws.values.machine import (
    DOUBLE_POINTS,
    PYTHON_SINGLE,
    SINGLE_POINTS,
    integers_from,
)
from simverify.symbolic.draws.whole.bits import MANY
from simverify.symbolic.draws.whole.integers import FEW_CELLS
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import FloatOfDraw
from simverify.symbolic.generators.weights import checked_cdf, one_off_the_other
from simverify.symbolic.streams import Stream

_MOST_TRIALS = 1_000  # of more, a number of ways to succeed is beyond a float
_FLOYD_MOST = 10_000  # of a larger population numpy may choose in another way

_REAL_GENERATOR = np.random.Generator(np.random.PCG64(20252))
_REAL_STATE = np.random.RandomState(20252)


class Sampler:
    """The draws that both twins share; ``stream`` says after which seed they follow."""

    source: ClassVar[Source]
    legacy: ClassVar[bool] = False
    chosen: ClassVar[type]
    """What an index chosen out of a number is, in the version of numpy that is installed."""
    stream: Stream

    def _meet(self, weights: Any) -> None:
        dtype = getattr(weights, "dtype", None)
        if dtype is not None:
            self.source.meet(dtype)

    def _uniform(self) -> Any:
        return self.source.uniform(self.stream)

    def _below(self, n: int, made: str, low: int = 0, kind: Any = int) -> Any:
        """Return one of low..low+n-1, all as likely; ``made`` says how it is made of words."""
        u = self.source.uniform(self.stream, (made, n), one_word=False, among=n)
        return integer_below(n, u, low, kind)

    def _into(self, size: Any, out: Any, one: Callable[[], Any]) -> Any:
        if out is None:
            return each(self.source, size, one)
        if not isinstance(out, DrawArray) and self.source.plan is None:
            self.source.refuse("out= of a random draw", FloatOfDraw)
        out[...] = each(self.source, out.shape, one)
        return out

    def _typed(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what the real library gives: for its type, and for what it refuses."""
        real = _REAL_STATE if self.legacy else _REAL_GENERATOR
        return getattr(real, name)(*map(_sample_of, args), **kwargs)

    def _single(self) -> Any:
        """Return a uniform with the bits of a float32, as a Python float."""
        u = self.source.uniform(self.stream, "float32", one_word=False)
        return on_grid(u, PYTHON_SINGLE, SINGLE_POINTS)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform on [low, high)."""
        self._typed("uniform", low, high, size)
        low, high = _double(low), _double(high)
        if size is None:
            size = np.broadcast(low, high).shape or None
        return low + (high - low) * each(self.source, size, self._uniform)

    def standard_exponential(
        self, size: Any = None, dtype: Any = None, method: Any = None, out: Any = None
    ) -> Any:
        """Exponential of rate 1."""
        kind = ("exponential", str(dtype), method)
        single = (
            dtype is not None and self._typed("standard_exponential", 1, dtype).dtype == np.float32
        )
        drawn = self._into(size, out, lambda: self.source.exponential(self.stream, kind))
        return drawn.astype(np.float32) if single and size is not None and out is None else drawn

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential of mean ``scale``."""
        self._typed("exponential", scale, size)
        scale = _double(scale)
        if size is None:
            size = np.shape(scale) or None
        drawn = self.standard_exponential(size)
        return drawn if _is_one(scale) else scale * drawn

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Gumbel: ``loc - scale * log(E)``."""
        self._typed("gumbel", loc, scale, size)
        loc, scale = _double(loc), _double(scale)
        if size is None:
            size = np.broadcast(loc, scale).shape or None
        drawn = each(self.source, size, lambda: self.source.exponential(self.stream, "gumbel"))
        drawn = log_of(drawn)
        return loc - (drawn if _is_one(scale) else scale * drawn)

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
            return each(self.source, size, lambda: self._binomial(trial, prob))
        return np.array([self._binomial(t, q) for t, q in rows]).reshape(shape)

    def _binomial(self, n: int, p: float) -> int:
        if not (0 <= p <= 1 and n >= 0):
            raise ValueError("p < 0, p > 1 or p is NaN" if n >= 0 else "n < 0")
        if n > _MOST_TRIALS:
            self.source.refuse(f"binomial of {n:,} trials")
        weights = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        return self.source.pick(weights, self.stream, ("binomial", n))

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Return counts of ``n`` outcomes of probabilities ``pvals``; the last takes the rest."""
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
        """Items of ``a`` (or of ``range(a)``)."""
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
            chosen = one_off_the_other(p, n, count, self._index)
        elif not kw.get("shuffle", True):
            chosen = self._in_order_found(n, count)
        else:
            chosen = self._shuffled(n)[:count]
        if size is None:
            picked = items[chosen[0]]
            return self.chosen(picked) if np.ndim(a) == 0 else picked
        return items[np.array(chosen, dtype=np.int64).reshape(np.atleast_1d(size))]

    def _index(self, n: int, cdf: "list[float] | None", kind: str = "integer") -> int:
        """Return one of 0..n-1 as a number: it is an index."""
        if cdf is None:
            u = self.source.uniform(self.stream, (kind, n), one_word=False, among=n)
            cuts = [i / n for i in range(1, n)]
        else:
            u, cuts = self._uniform(), cdf[:-1]
        return u.locate(cuts) if isinstance(u, Uniform) else sum(u >= c for c in cuts)

    def _integer(self, low: int, high: int, kind: Any) -> Any:
        """Return one of low..high-1, of a type of integers."""
        return self._below(high - low, "integer", low, kind)

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
        end = int(high) + endpoint.get("endpoint", False)
        if size is None:
            return self._integer(int(low), end, type(one))
        kind = self._typed(name, low, high, 1, *given, **endpoint).dtype
        drawn = each(self.source, size, lambda: self._integer(int(low), end, kind.type))
        return drawn if isinstance(drawn, DrawArray) else drawn.astype(kind)

    def _shuffled(self, n: int) -> list[int]:
        self.source.make_room(n)
        left = list(range(n))
        return [left.pop(self._index(len(left), None, "shuffle")) for _ in range(n)]

    def _in_order_found(self, n: int, count: int) -> list[int]:
        """Return ``count`` of 0..n-1, all sets as likely and orders not: Floyd's algorithm.

        Bentley, "Programming pearls: a sample of brilliance", Commun. ACM 30 (1987) 754-757.
        """
        if count > n:
            raise ValueError("Cannot take a larger sample than population")
        if n > _FLOYD_MOST and count > n // 20:
            self.source.refuse("choice of many of a large population with shuffle=False")
        found: list[int] = []
        for last in range(n - count, n):
            drawn = self._index(last + 1, None, "shuffle")
            found.append(last if drawn in found else drawn)
        return found

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return a shuffled copy along the first axis."""
        if axis != 0:
            self.source.refuse("permutation along an axis")
        items = np.arange(x) if np.ndim(x) == 0 else np.asarray(x)
        return items[self._shuffled(len(items))]

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Shuffle in place along the first axis."""
        if axis != 0:
            self.source.refuse("shuffle along an axis")
        order = self._shuffled(len(x))
        x[:] = x[order] if isinstance(x, np.ndarray) else [x[i] for i in order]


def each(source: Source, size: Any, one: Callable[[], Any]) -> Any:
    """Return one draw, or an array of them."""
    if size is None:
        return one()
    shape = (int(size),) if np.ndim(size) == 0 else tuple(int(n) for n in size)
    source.make_room(math.prod(shape))
    return draw_array([one() for _ in range(math.prod(shape))], shape)


def _is_one(scale: Any) -> bool:
    """Whether a scale is the number that changes nothing, as it is by default."""
    return type(scale) is float and scale == 1.0


def integer_below(n: int, u: Any, low: int = 0, kind: Any = int) -> Any:
    """Return one of low..low+n-1, all as likely: a number if there are few, else a draw.

    The draw forks when it is used. A number on replay.
    """
    if not isinstance(u, Uniform):
        return kind(low + min(int(n * u), n - 1))
    if n <= FEW_CELLS:
        return kind(low + u.locate([i / n for i in range(1, n)]))
    path: Any = u.source
    path.sequences.values[id(u)] = n
    drawn = on_grid(u, integers_from(low, n, kind), min(n, DOUBLE_POINTS))
    form = IDENTITY.affine(n, low)
    drawn = Draw.kind(drawn.atom, form if n >= MANY else form.floor(), drawn.machine)
    return drawn if drawn.has_many_cells() else drawn.settle()


def _sample_of(x: Any) -> Any:
    return x.machine.sample if isinstance(x, Draw) else x


def _double(x: Any) -> Any:
    """Return a bound as numpy computes with it."""
    if isinstance(x, Draw | DrawArray):
        return x
    return float(x) if np.ndim(x) == 0 else np.asarray(x, dtype=np.float64)

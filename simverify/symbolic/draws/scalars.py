"""Symbolic scalars: a uniform, and anything monotone in one.

Comparing a draw with a number forks the path and narrows the uniform's interval; the
narrowed uniform stays the same draw, so code that uses it twice gets what it deserves.
A draw is put together from :mod:`.base` (form and machine), :mod:`.operated` (after an operation),
``whole/integers``, :mod:`.comparisons` (also of two draws), :mod:`.operators`, ``whole/bits`` and
:mod:`.attributes`.
"""

import math
import operator
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.draws.attributes import Attributes
from simverify.symbolic.draws.path import Decided
from simverify.symbolic.draws.values.forms import IDENTITY, Form
from simverify.symbolic.draws.values.machine import DOUBLE_POINTS, PYTHON, SINGLE_POINTS, Machine

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import DrawnPath


class Arrays:
    """What draws need of arrays of draws, which are built on them and fill this in."""

    apply_ufunc: Callable[..., Any]
    apply_function: Callable[..., Any]
    known: Callable[..., Any]
    of: Callable[..., Any]
    holding: Callable[..., Any]


ARRAYS = Arrays()


class Draw(Attributes):
    """``form`` of ``atom``, computed as ``machine`` says; all symbolic scalars."""

    __slots__ = ()

    @staticmethod
    def kind(atom: Any, form: Form, machine: Machine) -> "Draw":
        """Return what is computed: a draw, of a class of its own if it is an integer."""
        whole = isinstance(machine.sample, int | np.integer)
        return (WholeDraw if whole else Draw)(atom, form, machine)

    def __getitem__(self, index: Any) -> Any:
        """Index as a numpy scalar is: ``u[..., None]`` is an array of one."""
        if not isinstance(self.machine.sample, np.generic):
            return self.machine.sample[index]  # which raises
        return ARRAYS.holding(self)[index]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAYS.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return ARRAYS.apply_function(func, types, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError(f"{func.__name__} of a draw")  # the mode that follows torch comes first


class WholeDraw(Draw):
    """A draw of a type of integers: others have no ``__index__``, and code may ask."""

    __slots__ = ()

    def __index__(self) -> Any:
        return operator.index(self.settle())


class Uniform(Draw):
    """A uniform on [0, 1), known by now to lie in [low, high).

    It is one of ``points`` multiples of 1 / points. ``owner`` is the race or product that it
    takes part in, once one was decided.
    """

    __slots__ = ("_epoch", "_source", "high", "low", "owner", "points")

    single = True

    def __init__(self, source: "DrawnPath") -> None:
        self._source = source
        self._epoch = source.epoch
        self.low = 0.0
        self.high = 1.0
        self.owner: Any = None
        self.points = DOUBLE_POINTS
        self.atom = self
        self.form = IDENTITY
        self.machine = PYTHON

    @property
    def source(self) -> "DrawnPath":
        """The path's randomness."""
        return self._source

    def __lt__(self, other: Any) -> Any:
        if type(other) is float and self.machine is PYTHON and self._epoch == self._source.epoch:
            if self.low < other < self.high:
                return self.split(other)
            return other >= self.high  # False for NaN
        return Draw.__lt__(self, other)

    def check_epoch(self) -> None:
        """Refuse a draw of an earlier path, of which another law is known by now."""
        if self._epoch != self._source.epoch:
            self.refuse("a draw that an earlier call kept")

    def span(self) -> tuple[int, int]:
        """First and last point that are left."""
        self.check_epoch()
        return self._left()

    def _left(self) -> tuple[int, int]:
        first = _point(self.low * self.points)
        return first, max(first, _point(self.high * self.points) - 1)

    def split(self, bound: float) -> bool:
        """Fork on a bound strictly inside the interval; true if below."""
        self.check_epoch()
        if self.owner is not None:
            self.refuse("a draw compared with a number after it was compared with a draw")
        share = (bound - self.low) / (self.high - self.low)
        ends = self.low, bound, self.high
        below = self._source.fork((share, 1 - share), Decided.BOUND, self, ends) == 0
        if below:
            self.high = bound
        else:
            self.low = bound
        return below

    def between(self, part: float) -> float:
        """Return a number of its interval, so far from the lower end; of a coarse grid a point."""
        if self.points > SINGLE_POINTS:
            return self.low + (self.high - self.low) * part
        first, last = self._left()
        # In the middle of what is rounded down to the point.
        return (first + int((last - first + 1) * part) + 0.5) / self.points

    def locate(self, cuts: "list[float]") -> int:
        """Return how many of the ascending ``cuts`` it has passed; one fork for all."""
        self.check_epoch()
        low, high = self.low, self.high
        # Lists, not generators: a token of a large vocabulary has a cut for each.
        if not (cuts and low <= cuts[0] and cuts[-1] <= high):
            cuts = [low if c < low else high if c > high else c for c in cuts]
        ends = [low, *cuts, high]
        width = high - low
        weights = [(b - a) / width for a, b in pairwise(ends)]
        if len(weights) - weights.count(0.0) > 1:
            if self.owner is not None:
                self.refuse("a draw compared with a number after it was compared with a draw")
            cell = self._source.fork(weights, Decided.OUTCOME, self, ends)
            self.low, self.high = ends[cell], ends[cell + 1]
            return cell
        return max(range(len(weights)), key=weights.__getitem__)


def on_grid(u: Any, machine: Machine, points: int, form: Form = IDENTITY) -> Any:
    """Return a uniform as a draw from another grid than that of doubles, or of another type.

    ``form``: what it was meant to be. On replay ``u`` is a number, and so is the result.
    """
    if not isinstance(u, Uniform):
        return machine.op(min(int(u * points), points - 1))
    u.points = points
    return Draw.kind(u, form, machine)


def exponential_of(u: Uniform) -> Any:
    """Return a standard exponential, which is -log of a uniform in law."""
    return u.map(lambda: u.form.log().affine(-1.0, 0.0), _minus_log)


def _minus_log(u: float) -> float:
    return -math.log(u)


def _point(x: float) -> int:
    """Return the first point not below ``x``, which may be one that was divided and multiplied."""
    nearest = round(x)
    return nearest if abs(x - nearest) <= 2.0**-50 * max(1.0, x) else math.ceil(x)

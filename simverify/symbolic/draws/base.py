"""What every symbolic scalar is made of: a uniform, a form of it, and what the machine did."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.symbolic.draws.operands import near, number
from simverify.symbolic.draws.values.ends import where_defined
from simverify.symbolic.draws.values.forms import Form
from simverify.symbolic.draws.values.machine import (
    RACES,
    SINGLE_POINTS,
    SINGLES_MOVE,
    SMOOTH,
    SWAMPED,
    Machine,
    boundary,
)
from simverify.symbolic.errors import CannotEnumerate

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import Atom, DrawnPath

_TINY_SLACK = 1e-11
"""A form that is wrong with more probability is not used to compare with a number."""

_MANY_POINTS = 2**20
"""Points of a grid that is fine: at its ends floats may be infinite."""

_FEW = 16
"""A bound that cuts off fewer points than this is found among them."""


class Base:
    """``form`` of ``atom``, computed as ``machine`` says."""

    __slots__ = ("atom", "form", "machine")

    atom: "Atom"
    form: Form
    machine: Machine
    if TYPE_CHECKING:

        @staticmethod
        def kind(atom: "Atom", form: Form, machine: Machine) -> Any:
            """See Draw."""

        def is_below(self, bound: Any, *, closed: bool = False) -> bool:
            """See Comparisons."""

    def __init__(self, atom: "Atom", form: Form, machine: Machine) -> None:
        self.atom = atom
        self.form = form
        self.machine = machine

    @property
    def source(self) -> "DrawnPath":
        """The path's randomness."""
        return self.atom.source

    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn:
        """Stop: this cannot be followed."""
        self.source.refuse(call, kind)

    # Code may ask for its type.
    __class__ = property(lambda self: type(self.machine.sample))

    def is_exact(self) -> bool:
        """Whether it has to be computed on the grid: its form is no guide to what it is."""
        form = self.form
        return self.machine.blur > SMOOTH or form.inner is not None or form.slack > _TINY_SLACK

    def has_steps(self) -> bool:
        """Whether single values have a probability that counts."""
        return self.machine.blur > SWAMPED or self.form.has_steps()

    def holds_integers(self) -> bool:
        """Whether it is of a type of integers."""
        return isinstance(self.machine.sample, int | np.integer | np.bool_)

    def is_weak_beside(self, other: Any) -> bool:
        """Whether a number of Python's, which becomes one of 16 bits where it meets one."""
        return type(other) is np.float16 and type(self.machine.sample) in (float, int)

    def threshold(self, bound: Any, *, closed: bool = False) -> tuple[float, bool]:
        """Return ``(t, increasing)``: it is below ``bound`` iff u < t (increasing) or u >= t.

        ``closed``: below or at the bound, which differs where single values have a probability.
        """
        t, increasing = self._threshold(bound, closed)
        return self._at_a_cut(t), increasing

    def _threshold(self, bound: Any, closed: bool) -> tuple[float, bool]:
        sample = self.machine.sample
        if self.is_weak_beside(bound) or self.is_exact():
            return self._solved(bound, closed)
        if type(sample) is np.float32 and type(bound) is float:
            # The machine compares in float32.
            bound = np.float32(bound)
            self.source.meet(np.dtype(np.float32))
        t, increasing = self.form.threshold(float(bound))
        # A ratio one ulp below 1 leaves no float32 above it, whatever a real number would do.
        return self._solved(bound, closed) if self._leaves_few(t) else (t, increasing)

    def _at_a_cut(self, t: float) -> float:
        """Return the end of what is left that a bound on the uniform is, but for rounding.

        Two bounds that round to one number of the machine leave nothing between them.
        """
        atom = self.atom
        single = type(self.machine.sample) is np.float32 and self.machine.blur <= RACES
        if not (single and atom.low < t < atom.high):
            return t
        end = atom.low if t - atom.low < atom.high - t else atom.high
        most = self.machine.blur * SINGLES_MOVE
        if end in (0.0, 1.0) or abs(t - end) > most:
            return t
        # Of that the part which rounding moves here: in the tail of a draw it is far less.
        if abs(t - end) > most * min(1.0, self.form.spread_at(t) / self.form.spread()):
            return t
        self.source.slack += abs(t - end) / (atom.high - atom.low)
        return end

    def _leaves_few(self, t: float) -> bool:
        """Whether a bound on the uniform leaves a few points of a coarse grid on one side.

        Or lies at an end of what is left, where that is a few points.
        """
        atom = self.atom
        if atom.points > SINGLE_POINTS or not atom.low <= t <= atom.high:
            return False
        inside = atom.low < t < atom.high
        width = min(t - atom.low, atom.high - t) if inside else atom.high - atom.low
        return width * atom.points < _FEW and atom.single and atom.owner is None

    def _solved(self, bound: Any, closed: bool) -> tuple[float, bool]:
        holds = (lambda x: x <= bound) if closed else (lambda x: x < bound)
        return self.solve(holds, near(self.form, bound, self.atom.points))

    def solve(self, holds: Callable[[Any], bool], guess: float = math.nan) -> tuple[float, bool]:
        """Find where a monotone condition changes: it holds iff u < t, or u >= t if false."""
        value, first, last = self.grid()
        point, before = boundary(lambda k: bool(holds(value(k))), first, last, guess)
        if point > last:
            return (math.inf if before else -math.inf), True
        return point / self.atom.points, before

    def grid(self) -> tuple[Callable[[int], Any], int, int]:
        """Return what computes the value at a point, and the first and last point left."""
        atom = self.atom
        if not atom.single:
            self.refuse("the rounding of a product or sum of draws")
        if atom.owner is not None:
            self.refuse("a draw compared with a number after it was compared with a draw")
        value = self.machine.values()
        first, last = atom.span()
        return value, *where_defined(value, first, last)

    def range(self, *, inside: bool = False) -> tuple[Any, Any]:
        """Smallest and largest value it can still take.

        ``inside``: as the machine computes them, where its uniforms are not at an end.
        """
        if not self.atom.single or not (inside or self.is_exact()):
            return self.form.range(self.atom.low, self.atom.high)
        first, last = self.inner_span() if inside else self.atom.span()
        value = self.machine.values()
        x, y = (value(k) for k in where_defined(value, first, last))
        return (x, y) if x <= y else (y, x)

    def number(self, x: Any) -> float | None:
        """Read a real number that meets the draw; None if it is something else."""
        if type(x) is float:
            return x
        if isinstance(x, np.floating | np.ndarray) and x.dtype.itemsize < 8:
            self.source.meet(x.dtype)
        try:
            return number(x)
        except OverflowError:
            return self.refuse("an integer of more than 1,024 bits beside a draw")

    def inner_span(self) -> tuple[int, int]:
        """First and last point left, without the ends of a fine grid of floats."""
        first, last = self.atom.span()
        fine = last - first > _MANY_POINTS and not self.machine.counts()
        return (first + 1, last - 1) if fine else (first, last)


def by_array(ufunc: Any, x: Any, y: Any) -> Any:
    """Apply a ufunc to a draw and an array; NotImplemented if neither is one."""
    array = y if isinstance(x, Base) else x
    return ufunc(x, y) if isinstance(array, np.ndarray) else NotImplemented

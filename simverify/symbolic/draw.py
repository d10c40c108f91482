"""The base of symbolic scalars: a uniform, a form of it, and what the machine did."""

# ruff: noqa: D102 - methods and functions whose name and types say what a docstring would

__simverify_role__ = "stand-in"


import math
import numbers
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.symbolic.forms import (
    DOUBLE_UNIFORM,
    MAX_CONTINUOUS_BLUR,
    MAX_RACE_BLUR,
    MAX_SMOOTH_BLUR,
    NO_OPERAND,
    OVERFLOW_ERRORS,
    PYTHON_UNIFORM,
    SINGLE_POINTS,
    SINGLE_SLACK,
    BFloat16,
    Form,
    Machine,
    NotMonotone,
    defined_span,
    find_boundary,
    finite_span,
    may_overflow,
    to_bfloat16,
)
from simverify.symbolic.provenance import CannotEnumerate

if TYPE_CHECKING:
    from simverify.symbolic.races import Atom, DrawPath


# Values that a draw meets: numbers of other types, types that it is cast to, bounds on it.


@lru_cache(maxsize=256)
def element_type(dtype: Any) -> tuple[Any, Any]:
    """Return the type of one number of a numpy or torch type, and what a draw meets in it."""
    name = str(dtype).removeprefix("torch.") if not isinstance(dtype, type) else ""
    if name == "bfloat16":
        return BFloat16, name
    kind = dtype if dtype is float else np.dtype(name or dtype).type
    return kind, name or np.dtype(kind)


def as_real_number(x: Any) -> float | None:
    """Read a real number of any type; None if it is something else."""
    if type(x) is float:
        return x
    # What is symbolic says that it has another type.
    if hasattr(x, "refuse") or hasattr(x, "read"):
        return None
    if isinstance(x, float | int | np.number | np.bool_ | numbers.Rational):
        return float(x)
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype != object:
        return float(x)
    return None


def guess_point(form: "Form", bound: Any, points: int) -> float:
    """Return near which point of the grid a form passes a bound, to search there first, or NaN."""
    try:
        return form.threshold(float(bound))[0] * points
    except (ArithmeticError, ValueError):
        return math.nan


_TINY_SLACK = 1e-11
"""A form that is wrong with more probability is not used to compare with a number."""

_FINE_GRID_POINTS = 2**20
"""Points of a grid that is fine: at its ends floats may be infinite."""

_FEW_POINTS = 16
"""A bound that cuts off fewer points than this is found among them."""


class DrawBase:
    """``form`` of ``atom``, computed as ``machine`` says."""

    __slots__ = ("atom", "form", "machine")

    atom: "Atom"
    form: Form
    machine: Machine
    if TYPE_CHECKING:

        @staticmethod
        def kind(atom: "Atom", form: Form, machine: Machine) -> Any: ...
        def is_below(self, bound: Any, *, closed: bool = False) -> bool: ...

    def __init__(self, atom: "Atom", form: Form, machine: Machine) -> None:
        self.atom = atom
        self.form = form
        self.machine = machine

    @property
    def source(self) -> "DrawPath":
        return self.atom.source

    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn:
        self.source.refuse(call, kind)

    # Code may ask for its type.
    __class__ = property(lambda self: type(self.machine.sample))

    def is_exact(self) -> bool:
        """Whether it has to be computed on the grid: its form is no guide to what it is."""
        form = self.form
        return (
            self.machine.blur > MAX_SMOOTH_BLUR
            or form.inner is not None
            or form.slack > _TINY_SLACK
        )

    def has_steps(self) -> bool:
        """Whether single values have a probability that counts."""
        return self.machine.blur > MAX_CONTINUOUS_BLUR or self.form.has_steps()

    def holds_integers(self) -> bool:
        return isinstance(self.machine.sample, int | np.integer | np.bool_)

    def is_weak_beside(self, other: Any) -> bool:
        """Whether a number of Python's, which becomes one of 16 bits where it meets one."""
        return type(other) is np.float16 and type(self.machine.sample) in (float, int)

    def threshold(self, bound: Any, *, closed: bool = False) -> tuple[float, bool]:
        """Return ``(t, increasing)``: below (or at) the bound iff u < t (increasing) or u >= t."""
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
        """Return the end of what is left that a bound rounds to: nothing lies between the two."""
        atom = self.atom
        single = type(self.machine.sample) is np.float32 and self.machine.blur <= MAX_RACE_BLUR
        if not (single and atom.low < t < atom.high):
            return t
        end = atom.low if t - atom.low < atom.high - t else atom.high
        most = self.machine.blur * SINGLE_SLACK
        if end in (0.0, 1.0) or abs(t - end) > most:
            return t
        # Of that the part which rounding moves here: in the tail of a draw it is far less.
        if abs(t - end) > most * min(1.0, self.form.spread_at(t) / self.form.spread()):
            return t
        self.source.slack += abs(t - end) / (atom.high - atom.low)
        return end

    def _leaves_few(self, t: float) -> bool:
        """Whether a bound leaves a few points of a coarse grid on one side, or at an end."""
        atom = self.atom
        if atom.points > SINGLE_POINTS or not atom.low <= t <= atom.high:
            return False
        inside = atom.low < t < atom.high
        width = min(t - atom.low, atom.high - t) if inside else atom.high - atom.low
        return width * atom.points < _FEW_POINTS and atom.single and atom.owner is None

    def _solved(self, bound: Any, closed: bool) -> tuple[float, bool]:
        holds = (lambda x: x <= bound) if closed else (lambda x: x < bound)
        return self.solve(holds, guess_point(self.form, bound, self.atom.points))

    def solve(self, holds: Callable[[Any], bool], guess: float = math.nan) -> tuple[float, bool]:
        """Find where a monotone condition changes: it holds iff u < t, or u >= t if false."""
        value, first, last = self.grid()
        point, before = find_boundary(lambda k: bool(holds(value(k))), first, last, guess)
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
        return value, *defined_span(value, first, last)

    def range(self, *, inside: bool = False) -> tuple[Any, Any]:
        """Smallest and largest value left; ``inside``: as computed, away from the grid's ends."""
        if not self.atom.single or not (inside or self.is_exact()):
            return self.form.range(self.atom.low, self.atom.high)
        first, last = self.inner_span() if inside else self.atom.span()
        value = self.machine.values()
        x, y = (value(k) for k in defined_span(value, first, last))
        return (x, y) if x <= y else (y, x)

    def number(self, x: Any) -> float | None:
        """Read a real number that meets the draw; None if it is something else."""
        if type(x) is float:
            return x
        if isinstance(x, np.floating | np.ndarray) and x.dtype.itemsize < 8:
            self.source.meet(x.dtype)
        try:
            return as_real_number(x)
        except OverflowError:
            return self.refuse("an integer of more than 1,024 bits beside a draw")

    def inner_span(self) -> tuple[int, int]:
        """First and last point left, without the ends of a fine grid of floats."""
        first, last = self.atom.span()
        fine = last - first > _FINE_GRID_POINTS and not self.machine.counts()
        return (first + 1, last - 1) if fine else (first, last)

    # -- a draw after an operation: its form, its machine, and a fork where its type ends --

    def map(
        self,
        make: Callable[[], Form],
        op: Callable[..., Any],
        other: Any = NO_OPERAND,
        *,
        reverse: bool = False,
    ) -> Any:
        """Return the draw after an operation of the machine that was meant as a form."""
        if self._is_beyond(op if other is NO_OPERAND else type(other)):
            value, first, last = self.grid()
            return Machine(None, op, None, 0.0, other, reverse).apply(value((first + last) // 2))
        try:
            form = make()
        except NotMonotone as error:
            self.refuse(str(error))
        try:
            machine = self.machine.then(form, op, other, reverse)
        except OVERFLOW_ERRORS:
            # Perhaps only where the sample is.
            machine = Machine(self.machine, op, math.inf, self.machine.blur, other, reverse)
            return self._finite(form, machine)
        return self.made(form, machine)

    def _is_beyond(self, kind: Any) -> bool:
        """Whether it is an integer of Python's that a type of numpy's cannot hold, which raises."""
        if type(self.machine.sample) is not int or not isinstance(kind, type):
            return False
        if not issubclass(kind, np.integer):
            return False
        ends = np.iinfo(kind)
        return self.is_below(int(ends.min)) or not self.is_below(int(ends.max) + 1)

    def made(self, form: Form, machine: Machine) -> Any:
        """Return a draw, which is finite: where its type ends the path forks."""
        # Where rounding counts, a logarithm meets zeros that the form does not have.
        if not (machine.blur > MAX_SMOOTH_BLUR or may_overflow(form, machine.sample)):
            return self.kind(self.atom, form, machine)
        if not isinstance(machine.sample, float | np.floating):
            return self.kind(self.atom, form, machine)
        return self._finite(form, machine)

    def _finite(self, form: Form, machine: Machine) -> Any:
        """Fork where a type ends: beyond is an infinity, a number like any other, or a raise."""
        atom = self.atom
        if not atom.single:
            self.refuse("a product or sum of draws that may overflow")
        value = machine.values()
        beyond = self._beyond(value, *self.inner_span())
        if beyond is not None:
            return beyond
        if not math.isfinite(machine.sample):
            machine.sample = value(sum(self.inner_span()) // 2)
        return self.kind(atom, form, machine)

    def _beyond(self, value: Callable[[int], Any], first: int, last: int) -> Any:
        """Return what is not finite, or None where ``value`` is: the path forks."""
        finite = finite_span(value, first, last)
        if finite is None:
            return self._infinite(value, first, last)
        low, high = finite
        points = self.atom.points
        ends = [low / points] * (low > first) + [(high + 1) / points] * (high < last)
        if ends:
            cell = self.atom.locate(ends) + (low == first)
            if cell != 1:
                return value(first if cell == 0 else last)
        return None

    def infinite(self) -> Any:
        """Return the draw where it is infinite, else None: the path forks; integers never are."""
        if self.holds_integers() or not self.atom.single or self.atom.owner is not None:
            return None
        if all(math.isfinite(end) for end in self.range()):
            return None
        value, first, last = self.grid()
        return self._beyond(value, first, last)

    def _infinite(self, value: Callable[[int], Any], first: int, last: int) -> Any:
        """Return what is nowhere finite, or raise what the machine does: the path forks."""
        x = value(first)
        point, _ = find_boundary(lambda k: repr(value(k)) == repr(x), first, last)
        if point > last or self.atom.locate([point / self.atom.points]) == 0:
            return x
        return self._infinite(value, point, last)

    def cast(self, dtype: Any) -> Any:
        """Return the draw as a number of a numpy or torch type of floats, or a Python float."""
        kind, met = element_type(dtype)
        self.source.meet(met)
        if type(self.machine.sample) is kind:
            return self
        if self.machine is PYTHON_UNIFORM and kind is np.float64:
            return self.kind(self.atom, self.form, DOUBLE_UNIFORM)
        form = self.form
        return self.map(lambda: form, to_bfloat16 if kind is BFloat16 else kind)


def apply_with_array(ufunc: Any, x: Any, y: Any) -> Any:
    """Apply a ufunc to a draw and an array; NotImplemented if neither is one."""
    array = y if isinstance(x, DrawBase) else x
    return ufunc(x, y) if isinstance(array, np.ndarray) else NotImplemented

"""What every symbolic scalar is made of: a uniform, a form of it, and what the machine did."""

import math
import numbers
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from simverify.symbolic.draws.forms import Form, NotMonotone
from simverify.symbolic.draws.machine import (
    DOUBLE,
    NOTHING,
    PYTHON,
    SINGLE_POINTS,
    SMOOTH,
    SWAMPED,
    BFloat16,
    Machine,
    boundary,
    to_bfloat16,
)
from simverify.symbolic.errors import CannotEnumerate

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import Atom, DrawnPath

_TINY_SLACK = 1e-11
"""A form that is wrong with more probability is not used to compare with a number."""

_MANY_POINTS = 2**20

_FEW = 16
"""Points of a grid: a bound that cuts off fewer is found among them."""

_AT_AN_END = (ValueError, ZeroDivisionError, OverflowError)
"""What functions of Python floats raise at u = 0, where numpy's give infinities."""


class Base:
    """``form`` of ``atom``, computed as ``machine`` says."""

    __slots__ = ("atom", "form", "machine")

    atom: "Atom"
    form: Form
    machine: Machine
    kind: ClassVar[type["Base"]]
    """The class of what is computed: ``Draw``."""

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

    def threshold(self, bound: Any, *, closed: bool = False) -> tuple[float, bool]:
        """Return ``(t, increasing)``: it is below ``bound`` iff u < t (increasing) or u >= t.

        ``closed``: below or at the bound, which differs where single values have a probability.
        """
        sample = self.machine.sample
        coarse = type(bound) is np.float16 and type(sample) is float
        if coarse or self.is_exact():
            return self._solved(bound, closed)
        if type(sample) is np.float32 and type(bound) is float:
            # The machine compares in float32.
            bound = np.float32(bound)
            self.source.meet(np.dtype(np.float32))
        t, increasing = self.form.threshold(float(bound))
        # A ratio one ulp below 1 leaves no float32 above it, whatever a real number would do.
        return self._solved(bound, closed) if self._leaves_few(t) else (t, increasing)

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
        return self.solve((lambda x: x <= bound) if closed else (lambda x: x < bound))

    def solve(self, holds: Callable[[Any], bool]) -> tuple[float, bool]:
        """Find where a monotone condition changes: it holds iff u < t, or u >= t if false."""
        value, first, last = self.grid()
        point, before = boundary(lambda k: bool(holds(value(k))), first, last)
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
        return value, *_where_defined(value, first, last)

    def range(self, *, inside: bool = False) -> tuple[Any, Any]:
        """Smallest and largest value it can still take.

        ``inside``: as the machine computes them, where its uniforms are not at an end.
        """
        if not self.atom.single or not (inside or self.is_exact()):
            return self.form.range(self.atom.low, self.atom.high)
        first, last = self.atom.span()
        if inside and last - first > _MANY_POINTS:
            first, last = first + 1, last - 1
        value = self.machine.values()
        x, y = (value(k) for k in _where_defined(value, first, last))
        return (x, y) if x <= y else (y, x)

    def number(self, x: Any) -> float | None:
        """Read a real number that meets the draw; None if it is something else."""
        if type(x) is float:
            return x
        if isinstance(x, np.floating | np.ndarray) and x.dtype.itemsize < 8:
            self.source.meet(x.dtype)
        return number(x)

    def map(
        self,
        make: Callable[[], Form],
        op: Callable[..., Any],
        other: Any = NOTHING,
        *,
        reverse: bool = False,
    ) -> Any:
        """Return the draw after an operation of the machine that was meant as a form."""
        try:
            form = make()
        except NotMonotone as error:
            self.refuse(str(error))
        machine = self.machine.then(form, op, other, reverse)
        if self.has_steps() and self.atom.single:
            self._raise_at_ends(machine)
        return self.kind(self.atom, form, machine)

    def _raise_at_ends(self, machine: Machine) -> None:
        """Fork on an end at which an operation raises, where that end has a probability."""
        value, points = machine.values(), self.atom.points

        def is_defined(point: int) -> bool:
            try:
                value(point)
            except _AT_AN_END:
                return False
            return True

        for at in (0, 1):
            first, last = self.atom.span()
            if not is_defined((first, last)[at]):
                point, _ = boundary(is_defined, first, last)
                if point > last or self.atom.locate([point / points]) == at:
                    value((first, last)[at])

    def cast(self, dtype: Any) -> Any:
        """Return the draw as a number of a numpy or torch type of floats, or a Python float."""
        kind, met = _kind_of(dtype)
        self.source.meet(met)
        if type(self.machine.sample) is kind:
            return self
        if self.machine is PYTHON and kind is np.float64:
            return self.kind(self.atom, self.form, DOUBLE)
        form = self.form
        return self.map(lambda: form, to_bfloat16 if kind is BFloat16 else kind)


@lru_cache(maxsize=256)
def _kind_of(dtype: Any) -> tuple[Any, Any]:
    """Return the type of one number of a numpy or torch type, and what a draw meets in it."""
    name = str(dtype).removeprefix("torch.") if not isinstance(dtype, type) else ""
    if name == "bfloat16":
        return BFloat16, name
    kind = dtype if dtype is float else np.dtype(name or dtype).type
    return kind, name or np.dtype(kind)


def _where_defined(value: Callable[[int], Any], first: int, last: int) -> tuple[int, int]:
    """Leave out an end at which the machine raises."""
    for step in (1, -1):
        point = first if step == 1 else last
        if first < last:
            try:
                value(point)
            except _AT_AN_END:
                first, last = (first + 1, last) if step == 1 else (first, last - 1)
    return first, last


def number(x: Any) -> float | None:
    """Read a real number of any type; None if it is something else."""
    if type(x) is float:
        return x
    if isinstance(x, Base) or hasattr(x, "read"):
        return None
    if isinstance(x, float | int | np.number | np.bool_ | numbers.Rational):
        return float(x)
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype != object:
        return float(x)
    return None


def by_array(ufunc: Any, x: Any, y: Any) -> Any:
    """Apply a ufunc to a draw and an array; NotImplemented if neither is one."""
    array = y if isinstance(x, Base) else x
    return ufunc(x, y) if isinstance(array, np.ndarray) else NotImplemented

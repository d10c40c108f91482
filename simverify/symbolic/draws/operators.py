"""The arithmetic of a symbolic scalar, each operation as it was meant and as it is computed."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.base import by_array
from simverify.symbolic.draws.comparisons import Comparisons
from simverify.symbolic.draws.whole.lines import is_whole
from simverify.symbolic.draws.whole.mixed import Mixed, remainder

NEGLIGIBLE = 2e-7
"""Clipping a draw on less than this probability is no step for the races it enters."""

Op = Callable[..., Any]


class Operators(Comparisons):
    """Arithmetic on draws."""

    __slots__ = ()

    def affine(self, scale: float, shift: float, op: Op, *args: Any, reverse: bool = False) -> Any:
        """Return ``scale * draw + shift``, which the machine computes as ``op``."""
        if scale == 0 or not (math.isfinite(shift) and math.isfinite(scale)):
            value = self.machine.sample
            if type(value) is int and any(isinstance(x, np.integer) for x in args):
                # What the other's type cannot hold raises.
                return self.on_values(swapped(op) if reverse else op, *args, name="a product")
            if math.isinf(scale) or (self.source.signs_zeros and not self.holds_integers()):
                # The same for all values of one sign.
                value = type(value)(-1 if self.is_below(0) else 0 if self.is_at(0) else 1)
            return op(*args, value) if reverse else op(value, *args)
        result = self.map(lambda: self.form.affine(scale, shift), op, *args, reverse=reverse)
        return self._wrapped(result, swapped(op) if reverse else op, *args)

    def _wrapped(self, result: Any, op: Op, *args: Any) -> Any:
        """Return the result of ``op``, forked by how often it wraps around."""
        if isinstance(result, Operators) and isinstance(result.machine.sample, np.integer):
            return result.within(self, op, *args)
        return result

    def clip_at(self, bound: Any, *, low: bool, op: Callable[..., Any]) -> Any:
        """Return the larger (``low``) or smaller of the draw and a number, which is ``op``."""
        if type(self.machine.sample) is int and isinstance(bound, np.integer):
            # What the bound's type cannot hold raises.
            return self.on_values(op, bound, name=op.__name__)
        same = op(self.machine.sample, bound)
        atom, form = self.atom, self.form
        if bound != bound:
            # Some functions pass over what is no number, others give it back.
            return same if same != same else self.map(lambda: form, op, bound)
        t, increasing = self.threshold(bound)
        outside = t - atom.low if increasing == low else atom.high - t
        if outside > 0:
            few = outside <= NEGLIGIBLE * (atom.high - atom.low)
            if few and atom.single and atom.owner is None:
                form = form.off_by(outside)
            elif self.is_below(bound) == low:
                return type(same)(bound)
        elif type(same) is type(self.machine.sample):
            return self
        return self.map(lambda: form, op, bound)

    def power(self, k: float, op: Op, *args: Any) -> Any:
        """Return ``draw ** k``, which the machine computes as ``op``."""
        if self.holds_integers():
            return self.on_values(op, *args, name="a power")
        return self.map(lambda: self.form.power(k), op, *args)

    def __add__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            return self.affine(1.0, x, operator.add, other)
        if isinstance(other, Operators):
            return self.plus(other, operator.add)
        return by_array(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            return self.affine(1.0, x, operator.add, other, reverse=True)
        return by_array(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            return self.affine(1.0, -x, operator.sub, other)
        if isinstance(other, Operators):
            return self.minus(other, operator.sub)
        return by_array(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            return self.affine(-1.0, x, operator.sub, other, reverse=True)
        return by_array(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            return self.affine(x, 0.0, operator.mul, other)
        if isinstance(other, Operators):
            return self.times(other, operator.mul)
        return by_array(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            return self.affine(x, 0.0, operator.mul, other, reverse=True)
        return by_array(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            scale = 1 / x if x != 0 else math.copysign(math.inf, x)
            return self.affine(scale, 0.0, operator.truediv, other)
        if isinstance(other, Operators):
            return self.times(other, operator.truediv, -1)
        return by_array(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if x == 0 or not math.isfinite(x):
                return self.refuse(f"{x} divided by a draw") if x else self._under_zero(other)
            if self.holds_integers():
                return self.on_values(swapped(operator.truediv), other, name="a division")
            return self.map(
                lambda: self.form.power(-1.0).affine(x, 0.0), operator.truediv, other, reverse=True
            )
        return by_array(np.divide, other, self)

    def _under_zero(self, zero: Any) -> Any:
        """Return ``zero / draw``: a zero with a sign, and no number where the draw is zero."""
        sign = -1 if self.is_below(0) else 0 if self.is_at(0) else 1
        return operator.truediv(zero, type(self.machine.sample)(sign))

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return self.on_values(pow, other, modulo, name="a power")
        if (x := self.number(other)) is not None:
            if x == 0 and not self.holds_integers():
                return operator.pow(self.machine.sample, other)
            return self.power(x, operator.pow, other)
        if isinstance(other, Operators):
            return self.on_values(operator.pow, other, name="a power")
        return by_array(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if x > 0 and x != 1 and not self.holds_integers():
                logarithm = math.log(x)
                return self.map(
                    lambda: self.form.affine(logarithm, 0.0).exp(), operator.pow, other,
                    reverse=True,
                )  # fmt: skip
            return self.on_values(swapped(operator.pow), other, name="a power")
        return by_array(np.power, other, self)

    def __floordiv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if x == 0 or not math.isfinite(x):
                return self.on_values(operator.floordiv, other, name=f"division by {x}")
            return self.floor_of(1 / x, operator.floordiv, other)
        if isinstance(other, Operators):
            return self.on_values(operator.floordiv, other, name="a floor division")
        return by_array(np.floor_divide, self, other)

    def floor_of(self, scale: float, op: Op, *args: Any) -> Any:
        """Return the floor of ``scale * draw``, which the machine computes as ``op``."""
        step = self.map(lambda: self.form.affine(scale, 0.0).floor(), op, *args)
        if self.holds_integers():
            # The smallest integer divided by -1 is beyond the largest.
            step = self._wrapped(step, op, *args)
        return step if not isinstance(step, Operators) or step.has_many_cells() else step.settle()

    def __rfloordiv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None and x > 0 and not self.holds_integers():
            return self.map(
                lambda: self.form.power(-1.0).affine(x, 0.0).floor(), operator.floordiv, other,
                reverse=True,
            )  # fmt: skip
        return self.on_values(swapped(operator.floordiv), other, name="a floor division")

    def __mod__(self, other: Any) -> Any:
        x = self.number(other)
        if x is None:
            if isinstance(other, np.ndarray):
                return by_array(np.remainder, self, other)
            return self.on_values(operator.mod, other, name="a remainder")
        if x > 0 and math.isfinite(x):
            return self.modulo(other, operator.floordiv, operator.mod, other)
        return self.on_values(operator.mod, other, name=f"a remainder by {x}")

    def modulo(self, modulus: Any, periods: Op, op: Op, other: Any) -> Any:
        """Return what whole ``periods`` leave; ``op`` computes it with ``other``, as they are."""
        x = float(modulus)
        cells = self.map(lambda: self.form.affine(1 / x, 0.0).floor(), periods, other)
        if not isinstance(cells, Operators):
            self.refuse("a remainder by next to nothing")
        first, last = cells.cells()
        if self.settles() and first < last:
            return self.on_values(op, other, name=f"a remainder by {x}")
        if first < last:
            if cells.has_many_cells():
                return self._remainder(modulus, op, other)
            first = int(cells.settle())
        return self.map(lambda: self.form.affine(1.0, -x * first), op, other)

    def _remainder(self, modulus: Any, op: Op, other: Any) -> Mixed:
        kind = type(op(type(self.machine.sample)(1), other))
        found = None
        if self.gives(kind, other) and is_whole(modulus):
            found = remainder(self, int(modulus), kind)
        return self.refuse("the remainder of a draw with many periods") if found is None else found

    def gives(self, kind: type, other: Any) -> bool:
        """Whether an operation with a number is of integers of one type, whatever the value."""
        here = type(self.machine.sample)
        return is_whole(kind()) and (issubclass(here, np.integer) or here is type(other) is int)

    def __rmod__(self, other: Any) -> Any:
        return self.on_values(swapped(operator.mod), other, name="a remainder")

    def __divmod__(self, other: Any) -> Any:
        rest = self % other
        return self // other, rest

    def __rdivmod__(self, other: Any) -> Any:
        return self.on_values(swapped(divmod), other, name="a remainder")

    def __neg__(self) -> Any:
        return self.affine(-1.0, 0.0, operator.neg)

    def __pos__(self) -> Any:
        return self.map(lambda: self.form, operator.pos)

    def __abs__(self) -> Any:
        if self.is_below(0):
            return self.affine(-1.0, 0.0, operator.abs)
        return self.map(lambda: self.form, operator.abs)


def swapped(op: Op) -> Op:
    """Return the operation with its two arguments in the other order."""

    def with_swapped(x: Any, y: Any) -> Any:
        return op(y, x)

    return with_swapped

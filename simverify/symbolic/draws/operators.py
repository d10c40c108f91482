"""The operators and functions of a symbolic scalar, in terms of a few primitives."""

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from simverify.symbolic.draws.forms import Form
    from simverify.symbolic.draws.path import Atom


MANY = 2**31
"""Integers below a range this large are read as a continuous uniform (error 1 / range)."""


class Operators:
    """Arithmetic on draws; :class:`~.draws.Draw` supplies what it is made of."""

    __slots__ = ()

    if TYPE_CHECKING:
        atom: Atom
        form: Form

        def is_below(self, bound: float, *, closed: bool = False) -> bool:
            """See Draw."""

        def _refuse(self, call: str) -> Any: ...
        def _number(self, x: Any) -> float | None: ...
        def _map(self, make: Any) -> Any: ...
        def _affine(self, scale: float, shift: float) -> Any: ...
        def _power(self, k: float) -> Any: ...
        def _plus(self, other: Any) -> Any: ...
        def _times(self, other: Any) -> Any: ...
        def _over_zero(self, zero: Any) -> Any: ...
        def _cell(self) -> int: ...
        def _step(self) -> Any: ...

    def __add__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None:
            return self._affine(1.0, x)
        if isinstance(other, Operators):
            return self._plus(other)
        return by_array(np.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None:
            return self._affine(1.0, -x)
        if isinstance(other, Operators):
            return self._plus(-other)
        return by_array(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None:
            return self._affine(-1.0, x)
        return by_array(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None:
            return self._affine(x, 0.0)
        if isinstance(other, Operators):
            return self._times(other)
        return by_array(np.multiply, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None:
            if x == 0:
                return self._over_zero(other)
            return self._affine(1 / x, 0.0)
        if isinstance(other, Operators):
            return self._times(other._power(-1.0))
        return by_array(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None:
            return self._power(-1.0) * x
        return by_array(np.divide, other, self)

    def __pow__(self, other: Any, modulo: None = None) -> Any:
        if (x := self._number(other)) is not None:
            return 1.0 if x == 0 else self._power(x)
        return by_array(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        if (x := self._number(other)) is not None and x > 0:
            return (self * math.log(x)).exp()
        return self._refuse("a power with a draw in the exponent")

    def __floordiv__(self, other: Any) -> Any:
        return (self / other).floor()

    def __mod__(self, other: Any) -> Any:
        return self - other * (self / other).floor()

    def __divmod__(self, other: Any) -> Any:
        cells = self // other
        return cells, self - other * cells

    def __rshift__(self, bits: Any) -> Any:
        wide = self.form.kind == "u" and self.form.a >= MANY
        if not self.form.is_whole() and not wide:
            return self._refuse("a shift of a draw that is no random integer")
        shifted = self / 2.0 ** int(bits)
        if wide and self.form.a / 2.0 ** int(bits) >= MANY:
            return shifted
        step = shifted.floor()
        return int(step) if isinstance(step, float) else step

    def __neg__(self) -> Any:
        return self._affine(-1.0, 0.0)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self.is_below(0.0) else self

    # -- functions; numpy calls these by name on object arrays --

    def log(self) -> Any:
        """Natural logarithm."""
        return self._map(lambda: self.form.log())

    def exp(self) -> Any:
        """Exponential."""
        return self._map(lambda: self.form.exp())

    def log1p(self) -> Any:
        """Logarithm of 1 + x."""
        return (self + 1.0).log()

    def expm1(self) -> Any:
        """Exponential minus one."""
        return self.exp() - 1.0

    def log2(self) -> Any:
        """Logarithm to base 2."""
        return self.log() / math.log(2)

    def log10(self) -> Any:
        """Logarithm to base 10."""
        return self.log() / math.log(10)

    def sqrt(self) -> Any:
        """Square root."""
        return self._power(0.5)

    def square(self) -> Any:
        """Square."""
        return self._power(2.0)

    def conjugate(self) -> Any:
        """Return itself: draws are real."""
        return self

    def floor(self) -> Any:
        """Largest integer not above it, as a float."""
        return self._step()

    def __floor__(self) -> int:
        return self._cell()

    def __ceil__(self) -> int:
        return self._cell() + 1

    def __round__(self, digits: int | None = None) -> Any:
        return (self + 0.5)._cell() if digits is None else self.round(digits)

    def round(self, decimals: int = 0, *args: Any) -> Any:
        """Nearest number with so many decimals (at a tie: an event of probability zero)."""
        return (self * 10.0**decimals + 0.5).floor() / 10.0**decimals

    def rint(self) -> Any:
        """Nearest integer, as a float."""
        return self.round()


def number(x: Any) -> float | None:
    """Read a real number of any type; None if it is something else."""
    if isinstance(x, float | int | np.number | np.bool_ | numbers.Rational):
        return float(x)
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype != object:
        return float(x)
    return None


def by_array(ufunc: Any, x: Any, y: Any) -> Any:
    """Apply a ufunc to a draw and an array; NotImplemented if neither is one."""
    array = y if isinstance(x, Operators) else x
    if not isinstance(array, np.ndarray):
        return NotImplemented
    return ufunc(x, y)

"""Shifts and operations on the bits of a draw that is an integer."""

import operator
from typing import Any

import numpy as np

from simverify.symbolic.draws.operators import Op, Operators, swapped
from simverify.symbolic.draws.whole.mixed import with_bits

MANY = 2**31
"""Integers below a range this large are read as a continuous uniform (error 1 / range)."""

_MOST_BITS = 1000
"""A shift by so many is still a factor that a float holds."""


class Bits(Operators):
    """What a draw answers to shifts, ``~``, ``&``, ``|`` and ``^``."""

    __slots__ = ()

    def _shifts(self, op: Op, bits: Any) -> bool:
        """Whether a shift is by a number of bits that can be followed; raises what its type does.

        Tried on 0, which has as few digits after it: another number may not fit into memory.
        """
        op(type(self.machine.sample)(0), bits)
        return isinstance(bits, int | np.integer) and bool(0 <= bits <= _MOST_BITS)

    def __rshift__(self, bits: Any) -> Any:
        if not self._shifts(operator.rshift, bits):
            return self.on_values(operator.rshift, bits, name="a shift")
        form = self.form
        if form.kind == "u" and form.a / 2.0 ** int(bits) >= MANY:
            return self.map(lambda: form.affine(2.0 ** -int(bits), 0.0), operator.rshift, bits)
        return self.floor_of(2.0 ** -int(bits), operator.rshift, bits)

    def __lshift__(self, bits: Any) -> Any:
        if not self._shifts(operator.lshift, bits):
            return self.on_values(operator.lshift, bits, name="a shift")
        return self.affine(2.0 ** int(bits), 0.0, operator.lshift, bits)

    def __rlshift__(self, other: Any, op: Op = operator.lshift) -> Any:
        op(other, type(self.machine.sample)(0))
        return op(other, self.settle()) if self.settles() else self.refuse("a shift by a draw")

    def __rrshift__(self, other: Any) -> Any:
        return self.__rlshift__(other, operator.rshift)

    def __invert__(self) -> Any:
        operator.invert(type(self.machine.sample)(1))
        return self.on_values(operator.invert, name="~")


def _bitwise(name: str, op: Op) -> None:
    def forward(self: Bits, other: Any) -> Any:
        found = with_bits(self, name, other, op)
        return self.on_values(op, other, name=name) if found is None else found

    def backward(self: Bits, other: Any) -> Any:
        found = with_bits(self, name, other, op)
        return self.on_values(swapped(op), other, name=name) if found is None else found

    setattr(Bits, f"__{op.__name__.strip('_')}__", forward)
    setattr(Bits, f"__r{op.__name__.strip('_')}__", backward)


for _sign, _op in (("&", operator.and_), ("|", operator.or_), ("^", operator.xor)):
    _bitwise(_sign, _op)

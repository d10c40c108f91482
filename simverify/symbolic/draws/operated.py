"""A draw after an operation: its form, its machine, and a fork where its type ends."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.base import Base
from simverify.symbolic.draws.operands import kind_of
from simverify.symbolic.draws.values.ends import OVERFLOWS, finite_part, may_overflow
from simverify.symbolic.draws.values.forms import Form, NotMonotone
from simverify.symbolic.draws.values.machine import (
    DOUBLE,
    NOTHING,
    PYTHON,
    SMOOTH,
    BFloat16,
    Machine,
    boundary,
    to_bfloat16,
)


class Operated(Base):
    """What operations make of a draw."""

    __slots__ = ()

    def map(
        self,
        make: Callable[[], Form],
        op: Callable[..., Any],
        other: Any = NOTHING,
        *,
        reverse: bool = False,
    ) -> Any:
        """Return the draw after an operation of the machine that was meant as a form."""
        if self._is_beyond(op if other is NOTHING else type(other)):
            value, first, last = self.grid()
            return Machine(None, op, None, 0.0, other, reverse).apply(value((first + last) // 2))
        try:
            form = make()
        except NotMonotone as error:
            self.refuse(str(error))
        try:
            machine = self.machine.then(form, op, other, reverse)
        except OVERFLOWS:
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
        if not (machine.blur > SMOOTH or may_overflow(form, machine.sample)):
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
        finite = finite_part(value, first, last)
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
        """Return the draw where it is infinite, and None where it is not: the path forks.

        An integer is made of neither end: some types raise, and others hold any number then.
        """
        if self.holds_integers() or not self.atom.single or self.atom.owner is not None:
            return None
        if all(math.isfinite(end) for end in self.range()):
            return None
        value, first, last = self.grid()
        return self._beyond(value, first, last)

    def _infinite(self, value: Callable[[int], Any], first: int, last: int) -> Any:
        """Return what is nowhere finite, or raise what the machine does: the path forks."""
        x = value(first)
        point, _ = boundary(lambda k: repr(value(k)) == repr(x), first, last)
        if point > last or self.atom.locate([point / self.atom.points]) == 0:
            return x
        return self._infinite(value, point, last)

    def cast(self, dtype: Any) -> Any:
        """Return the draw as a number of a numpy or torch type of floats, or a Python float."""
        kind, met = kind_of(dtype)
        self.source.meet(met)
        if type(self.machine.sample) is kind:
            return self
        if self.machine is PYTHON and kind is np.float64:
            return self.kind(self.atom, self.form, DOUBLE)
        form = self.form
        return self.map(lambda: form, to_bfloat16 if kind is BFloat16 else kind)

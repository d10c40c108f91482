"""Draws that are integers, and the integer parts of others.

Where few values are left, a draw that is asked for more than a comparison is settled: the
path forks once for each value, and the real library computes with a real number.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from simverify.symbolic.draws.base import Base
from simverify.symbolic.draws.operands import near
from simverify.symbolic.draws.operated import Operated
from simverify.symbolic.draws.values.forms import NotMonotone
from simverify.symbolic.draws.whole.runs import changes, exactly, runs_of
from simverify.symbolic.errors import IntOfDraw, TooManyValues
from simverify.symbolic.whose import users_line

MAX_CELLS = 4096
FEW_CELLS = 16
"""Random integers out of at most so many fork at once; beyond, when they are compared."""

_NEAR = 1e-13
"""Relative distance at which an end of a smooth draw's range counts as the integer there."""


class Integers(Operated):
    """What a draw answers where an integer is asked for."""

    __slots__ = ()

    def cells(self) -> tuple[int, int]:
        """Smallest and largest floor that it can still have."""
        low, high = self.range()
        if not (math.isfinite(low) and math.isfinite(high)):
            low, high = self._ends()
        if not (math.isfinite(low) and math.isfinite(high)):
            self.refuse("the integer part of a draw without bounds")
        if self.is_exact():
            return math.floor(low), math.floor(high)
        first = math.floor(low + _NEAR * abs(low))
        return first, max(first, math.ceil(high - _NEAR * abs(high)) - 1)

    def _ends(self) -> tuple[Any, Any]:
        """Return the smallest and the largest value that the machine computes.

        A form may have no bounds where they are finite: no uniform is 1.
        """
        if not self.atom.single or self.atom.owner is not None:
            return self.range()
        value, first, last = self.grid()
        low, high = value(first), value(last)
        return (low, high) if low <= high else (high, low)

    def has_many_cells(self) -> bool:
        """Whether its integer part stays a draw; not where that stopped the code before."""
        first, last = self.cells()
        if last - first < FEW_CELLS or (self.source.at_once and last - first < MAX_CELLS):
            return False
        self.source.postponed = True
        return True

    def settles(self) -> bool:
        """Whether there are few enough values to go on with each of them."""
        return (
            (self.holds_integers() or self.form.is_whole())
            and self.atom.single
            and self.cells()[1] - self.cells()[0] < MAX_CELLS
        )

    def settle(self) -> Any:
        """Fork once for each value left and return it, a number of its real type."""
        runs = self._runs()
        if runs is None:
            self.refuse(
                f"a random integer of more than {MAX_CELLS} values where a plain number is "
                "needed, as an index or by compiled code",
                TooManyValues,
            )
        if len(runs) > max(FEW_CELLS, self.source.widest[0]):
            self.source.widest = len(runs), users_line()
        points = self.atom.points
        cell = self.atom.locate([point / points for point, _ in runs[1:]])
        return runs[cell][1]

    def _runs(self) -> "list[tuple[int, Any]] | None":
        """Return the runs of equal values that are left; the same ones come again on each path."""
        value, first, last = self.grid()
        form, points = self.form, self.atom.points
        guess = lambda x, y: near(form, (float(x) + float(y)) / 2, points)  # noqa: E731
        return runs_of(self.machine, value, first, last, MAX_CELLS, guess)

    def on_values(self, op: Callable[..., Any], *others: Any, name: str) -> Any:
        """Do on each of few values what has no rule of its own, or refuse it by name.

        What the real type cannot do raises what it raises.
        """
        if self.settles():
            return op(self.settle(), *others)
        if not any(isinstance(x, Base) for x in others):
            # Other errors may come of this value alone.
            with suppress(ArithmeticError, ValueError, LookupError, MemoryError):
                op(self.machine.sample, *others)
        return self.refuse(f"{name} of a draw")

    def floor(self, op: Callable[..., Any], *others: Any) -> Any:
        """Return the floor as ``op`` computes it: a number if few are possible, else a draw."""
        if self.holds_integers() and not others:
            return self.map(lambda: self.form, op)
        if (end := self.infinite()) is not None:
            return op(end, *others)
        if not others:
            return self._floored(op)
        step = self.map(self.form.floor, op, *others)
        return step if not isinstance(step, Integers) or step.has_many_cells() else step.settle()

    def toward_zero(self, op: Callable[..., Any]) -> Any:
        """Return the integer part as ``op`` computes it: ``int``, ``np.trunc``, a cast."""
        if (end := self.infinite()) is not None:
            return op(end)
        low, high = self.range()
        if self.holds_integers() or low >= 0:
            return self._kept(op)
        if high > 0 and not self.is_below(0):
            return self._kept(op)
        return self._stepped(lambda: self.form.affine(-1, 0).floor().affine(-1, 0), op)

    def _kept(self, op: Callable[..., Any]) -> Any:
        if not (self.holds_integers() or self.form.is_whole()):
            return self._floored(op)
        kept = self.map(lambda: self.form, op)
        whole = isinstance(kept, Integers) and kept.holds_integers()
        return kept.within(self, op) if whole else kept

    def _floored(self, op: Callable[..., Any]) -> Any:
        """Return ``op`` where it is the floor: the cells of a smooth draw are those of its form."""
        if self.is_exact() or self.has_many_cells():
            return self._stepped(self.form.floor, op)
        first, last = self.cells()
        cuts = [self.form.threshold(float(c))[0] for c in range(first + 1, last + 1)]
        if not cuts:
            cell = first
        elif self.form.threshold(first + 1.0)[1]:
            cell = first + self.atom.locate(cuts)
        else:
            cell = last - self.atom.locate(cuts[::-1])
        return op(type(self.machine.sample)(cell + 0.5))

    def _stepped(self, make: Callable[[], Any], op: Callable[..., Any], *others: Any) -> Any:
        step = self.map(make, op, *others)
        if isinstance(step, Integers) and step.holds_integers():
            step = step.within(self, op)
        return step if not isinstance(step, Integers) or step.has_many_cells() else step.settle()

    def nearest(self, op: Callable[..., Any], *others: Any) -> Any:
        """Return the nearest integer, half to even, as ``op`` computes it."""
        if self.holds_integers() and not others:
            return self.map(lambda: self.form, op)
        if (end := self.infinite()) is not None:
            return op(end, *others)
        return self._stepped(lambda: self.form.affine(1, 0.5).floor(), op, *others)

    def ceiling(self, op: Callable[..., Any]) -> Any:
        """Return the ceiling as ``op`` computes it."""
        if self.holds_integers():
            return self.map(lambda: self.form, op)
        if (end := self.infinite()) is not None:
            return op(end)
        return self._stepped(lambda: self.form.affine(-1, 0).floor().affine(-1, 0), op)

    def whole(self, kind: Any = int) -> Any:
        """Return it as an integer: a draw with steps if many values are possible."""
        return self.toward_zero(kind)

    def within(self, before: "Integers", op: Callable[..., Any], *others: Any) -> Any:
        """Return this result of ``op`` on ``before``; forked by how often it wraps around."""
        kind = type(self.machine.sample)
        if not issubclass(kind, np.integer):
            return self
        low, size = int(np.iinfo(kind).min), 1 << 8 * kind().itemsize
        value, first, last = before.grid()
        if not before.holds_integers():
            # At the ends of a fine grid there may be infinities.
            first, last = before.inner_span()

        def wraps(point: int) -> int:
            return (exactly(op, value(point), *others) - low) // size

        if wraps(first) == wraps(last) == 0:
            return self
        if not before.holds_integers():
            self.refuse(f"a cast of a draw beyond {kind.__name__}")
        if before.settles():
            return op(before.settle(), *others)
        runs = changes(wraps, first, last, FEW_CELLS)
        if runs is None:
            self.refuse(f"an overflow of {kind.__name__} in draws with many values")
        points = self.atom.points
        cell = self.atom.locate([point / points for point, _ in runs[1:]])
        try:
            form = self.form.affine(1.0, -float(runs[cell][1] * size))
        except NotMonotone as error:
            self.refuse(str(error))
        return self.kind(self.atom, form, self.machine)

    def check_64_bits(self) -> None:
        """Refuse an integer of Python's that may be too large for numpy's usual type."""
        if type(self.machine.sample) is int:
            low, high = self.range(inside=True)
            if low < -(2**63) or high >= 2**63:
                self.refuse("an integer of Python's that may be beyond numpy's 64 bits")

    def __int__(self) -> Any:
        if (end := self.infinite()) is not None:
            return int(end)
        if self.source.refuses_many and self.has_many_cells():
            self.refuse("int() of a draw with many values", IntOfDraw)
        whole = self.whole(int)
        return whole.settle() if isinstance(whole, Integers) else whole

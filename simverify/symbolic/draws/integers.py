"""The integer part of a draw: which values it can have, and whether it stays a draw."""

import math
from typing import TYPE_CHECKING, Any, NoReturn

from simverify.symbolic.draws.forms import ROUNDING
from simverify.symbolic.draws.operators import Operators

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import DrawnPath

MAX_CELLS = 4096
FEW_CELLS = 16
"""Random integers out of at most so many fork at once; beyond, when they are compared."""

MANY_VALUES = "int() of a draw with many values"
"""What refuses a fork for each of them, where a stand-in for ``int`` keeps the draw."""


class Integers(Operators):
    """What a draw answers where an integer is asked for."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def source(self) -> DrawnPath:
            """See Draw."""

        def range(self) -> tuple[float, float]:
            """See Draw."""

        def _refuse(self, call: str) -> NoReturn:
            """See Draw."""

    def _cells(self) -> tuple[int, int]:
        """Smallest and largest integer part that it can still have."""
        low, high = self.range()
        if not (math.isfinite(low) and math.isfinite(high)):
            self._refuse("the integer part of a draw without bounds")
        first = math.floor(low + ROUNDING * abs(low))
        return first, max(first, math.ceil(high - ROUNDING * abs(high)) - 1)

    def _step(self) -> Any:
        """Return its integer part: a number if few are possible, else a draw with steps."""
        if not self._has_many_cells():
            return float(self._cell())
        return self._map(lambda: self.form.floor())

    def trunc(self) -> Any:
        """Integer part, as a float."""
        return self._step() if self._cells()[0] >= 0 else float(self._toward_zero())

    def whole(self) -> Any:
        """Integer part, as ``int``: a draw with steps if many are possible."""
        if self._cells()[0] < 0 or not self._has_many_cells():
            return self._toward_zero()
        return self if self.form.is_whole() else self._map(lambda: self.form.floor())

    def __int__(self) -> int:
        if self.source.refuses_many and self._has_many_cells():
            self._refuse(MANY_VALUES)
        return self._toward_zero()

    __trunc__ = __int__

    def _toward_zero(self) -> int:
        cell = self._cell()
        return cell + 1 if cell < 0 else cell

    def _has_many_cells(self) -> bool:
        """Whether its integer part stays a draw; not where that stopped the code before."""
        first, last = self._cells()
        if last - first < FEW_CELLS or (self.source.at_once and last - first < MAX_CELLS):
            return False
        self.source.postponed = True
        return True

    def _cell(self) -> int:
        first, last = self._cells()
        if first == last:
            return first
        if last - first >= MAX_CELLS:
            self._refuse(f"the integer part of a draw with more than {MAX_CELLS} outcomes")
        cuts = [self.form.threshold(float(c))[0] for c in range(first + 1, last + 1)]
        if cuts[0] < cuts[-1] or (len(cuts) == 1 and self.form.threshold(first + 1.0)[1]):
            return first + self.atom.locate(cuts)
        return last - self.atom.locate(cuts[::-1])

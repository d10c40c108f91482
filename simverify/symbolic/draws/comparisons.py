"""What a draw answers when it is compared with a number, which forks the path, or with a draw."""

from typing import Any

import numpy as np

from simverify.symbolic.draws.base import by_array
from simverify.symbolic.draws.several.pairs import Pairs

_PYTHON = (float, int, bool)


class Comparisons(Pairs):
    """``<``, ``==`` and the like; ``<`` and ``<=`` differ where values have a probability."""

    __slots__ = ()

    def is_below(self, bound: Any, *, closed: bool = False) -> bool:
        """Whether the draw is below a number, or at most it if ``closed``."""
        if bound != bound:
            return False
        atom = self.atom
        atom.check_epoch()
        t, increasing = self.threshold(bound, closed=closed)
        below = atom.split(t) if atom.low < t < atom.high else t >= atom.high
        return below if increasing else not below

    def is_at(self, x: Any) -> bool:
        """Whether it is this number: where it has no steps that has probability zero."""
        if not (self.has_values() or self.is_weak_beside(x)):
            return False
        return self.is_below(x, closed=True) and not self.is_below(x)

    def has_values(self) -> bool:
        """Whether single values have a probability above that of a bit of a double."""
        return self.machine.blur > 1 or self.form.has_steps()

    def _answer(self, other: Any, answer: bool) -> Any:
        """Return the answer as the real types give it: ``~`` of numpy's is another matter."""
        plain = type(self.machine.sample) in _PYTHON and type(other) in _PYTHON
        return answer if plain else np.bool_(answer)

    def __lt__(self, other: Any) -> Any:
        if self.number(other) is not None:
            return self._answer(other, self.is_below(other))
        return self._with_another(other, np.less)

    def __gt__(self, other: Any) -> Any:
        if self.number(other) is not None:
            return self._answer(other, other == other and not self.is_below(other, closed=True))
        return self._with_another(other, np.greater)

    def __le__(self, other: Any) -> Any:
        if self.number(other) is not None:
            return self._answer(other, self.is_below(other, closed=True))
        return self._with_another(other, np.less_equal)

    def __ge__(self, other: Any) -> Any:
        if self.number(other) is not None:
            return self._answer(other, other == other and not self.is_below(other))
        return self._with_another(other, np.greater_equal)

    def __eq__(self, other: Any) -> Any:
        if self.number(other) is not None:
            return self._answer(other, self.is_at(other))
        return self._with_another(other, np.equal)

    def __ne__(self, other: Any) -> Any:
        if self.number(other) is not None:
            return self._answer(other, not self.is_at(other))
        return self._with_another(other, np.not_equal)

    # A class with an __eq__ of its own inherits none.
    __hash__ = Pairs.__hash__

    def __bool__(self) -> bool:
        return not self.is_at(0)

    def _with_another(self, other: Any, ufunc: Any) -> Any:
        if isinstance(other, Comparisons):
            if self.is_weak_beside(other.machine.sample):
                return ufunc(self.cast(np.float16), other)
            if other.is_weak_beside(self.machine.sample):
                return ufunc(self, other.cast(np.float16))
        else:
            array = isinstance(other, np.ndarray)
            if ufunc in (np.equal, np.not_equal) and not array:
                return NotImplemented
            return by_array(ufunc, self, other)
        if ufunc in (np.equal, np.not_equal):
            return self._is_same(other) == (ufunc is np.equal)
        if self is other:
            return ufunc not in (np.less, np.greater)
        if ufunc in (np.less, np.greater):
            return self.is_less(other) if ufunc is np.less else other.is_less(self)
        # At most the other: not above it.
        return not (other.is_less(self) if ufunc is np.less_equal else self.is_less(other))

    def _is_same(self, other: "Comparisons") -> bool:
        """Whether two draws are equal."""
        if self is other:
            return True
        if self.atom is other.atom and (less := self._less_of_lines(other)) is not None:
            return not (less or other._less_of_lines(self))
        if not (self.has_values() or other.has_values()):
            if self.atom is not other.atom or self.form != other.form:
                return False
            return self.machine.does_as(other.machine) or self.refuse(
                "whether one draw computed in two ways is equal"
            )
        (x_low, x_high), (y_low, y_high) = self.range(inside=True), other.range(inside=True)
        if x_high < y_low or y_high < x_low:
            return False
        if self.settles():
            return bool(other == self.settle())
        if other.settles():
            return bool(self == other.settle())
        return self.refuse("whether two draws that were rounded are equal")

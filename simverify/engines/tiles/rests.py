"""What the elements of a block are beyond those that are written out.

A kernel takes blocks of thousands of lanes, of which a small vocabulary fills the first few; the
others are masked off. So a block (:mod:`.blocks`) holds its first elements, and a rest that says
what the others are without computing them: one number, a line (``tl.arange``), or a function that
computes them if anything asks. Nothing is left out: what depends on the rest asks for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_ENDS = {
    kind: (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for kind in (
        *(np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64),
    )
}
"""The smallest and the largest number of each type."""

_INTEGERS = (int, np.integer)

Made = Callable[[int, int], Any]
"""``f(first, end)``: elements first..end - 1, an array."""


class Rest:
    """Elements of a block from some place on; ``between`` computes some of them.

    Those that were asked for last are kept: the rounds of a cipher use each word several times, and
    would compute it as often at every round before.
    """

    __slots__ = ("_asked", "_made", "_told")

    def __init__(self, made: Made) -> None:
        self._made = made
        self._asked: tuple[int, int] | None = None
        self._told: Any = None

    def between(self, first: int, end: int) -> Any:
        """Return elements first..end - 1 of the block."""
        if self._asked != (first, end):
            self._told = self._made(first, end)
            self._asked = first, end
        return self._told


class Constant(Rest):
    """All are one number, in the block's type."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def between(self, first: int, end: int) -> Any:
        """Return elements first..end - 1 of the block."""
        return spread(self.value, end - first)


class Line(Rest):
    """Element i is ``start + step * i``, integers that the type of the block, ``kind``, holds."""

    __slots__ = ("kind", "start", "step")

    def __init__(self, start: int, step: int, kind: Any) -> None:
        self.start, self.step, self.kind = start, step, kind

    def between(self, first: int, end: int) -> Any:
        """Return elements first..end - 1 of the block."""
        if not self.step:
            return np.full(end - first, self.kind(self.start))
        start = self.start + self.step * first
        end = self.start + self.step * end
        return np.arange(start, end, self.step, dtype=self.kind)

    def fits(self, kind: Any, count: int) -> "Line | None":
        """Return the line in another type of integers, if all ``count`` elements fit in it."""
        first, last = self.start, self.start + self.step * (count - 1)
        low, high = _ENDS[kind]
        if low <= first <= high and low <= last <= high:
            return Line(self.start, self.step, kind)
        return None

    def moved(self, name: str, number: int, *, first: bool) -> "tuple[int, int] | None":
        """Return start and step after ``+``, ``-`` or ``*`` with a number.

        ``first``: the line stands before the operator. None: it is no line any more.
        """
        if name == "add":
            return self.start + number, self.step
        if name == "sub":
            if first:
                return self.start - number, self.step
            return number - self.start, -self.step
        return (self.start * number, self.step * number) if name == "mul" else None

    def cut(self, name: str, number: Any, known: int, count: int) -> int | None:
        """Return from which element on a comparison with a number has one answer.

        Not below ``known``, at most ``count``; None if that is not known in whole numbers.
        """
        if self.step <= 0 or not isinstance(number, _INTEGERS):
            return None
        bound = int(number)
        if name in ("le", "gt"):
            bound += 1
        place = -((self.start - bound) // self.step)  # the first i with start + step i >= bound
        if name in ("eq", "ne"):
            place = place + 1 if self.start + self.step * place == bound else known
        return min(max(place, known), count)


def is_number(value: Any) -> bool:
    """Whether a value is a number of numpy's: a draw says that it is one, and is not."""
    return issubclass(type(value), np.generic)


_RESTS = frozenset({Rest, Line})


def spread(value: Any, count: int) -> Any:
    """Return an array of one number, which may be a draw."""
    if is_number(value):
        return np.full(count, value)
    if not hasattr(value, "as_type"):  # the winner of a race: it is read
        return np.full(count, int(value))
    return np.repeat(value[None], count)


def combined(function: Callable[..., Any], rests: Sequence[Any]) -> Rest:
    """Return the rest of a block that ``function`` makes of others; scalars are given as they are.

    ``function`` is taken element by element. It is computed now if all are constants, and where
    something asks if not.
    """
    values = [x.value if type(x) is Constant else x for x in rests]
    if not _RESTS.intersection(map(type, values)):
        return Constant(function(*values))

    def made(first: int, end: int) -> Any:
        return function(*[x.between(first, end) if isinstance(x, Rest) else x for x in rests])

    return Rest(made)

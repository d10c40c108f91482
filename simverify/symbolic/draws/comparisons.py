"""What a draw answers when it meets another, or is compared with a number.

Sums and products of two draws are followed where they have a law that is known. A comparison
with a number forks the path, one with a draw is a race.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.base import by_array
from simverify.symbolic.draws.forms import Form
from simverify.symbolic.draws.integers import Integers
from simverify.symbolic.draws.machine import RACES, Machine
from simverify.symbolic.draws.several.races import enter, first_is_less

Op = Callable[..., Any]


class Pairs(Integers):
    """What a draw answers when it meets another."""

    __slots__ = ()

    def plus(self, other: "Pairs", op: Op) -> Any:
        """Return the sum of two draws where it is a draw; ``op`` computes it."""
        if (known := self._with_one_known(other, op)) is not NotImplemented:
            return known
        x, y = self.form, other.form
        if self.atom is other.atom and x.kind == y.kind and x.kind in ("u", "ea"):
            if x.flip == y.flip:
                return self._of_one_atom(other, op, x.a + y.a, lambda: _sum(x, y))
        elif x.kind == y.kind == "ea" and x.a == y.a and not (x.flip or y.flip):
            return self._chained(other, op, Form("ea", x.a, x.b + y.b))
        return self.refuse("the sum of two draws")

    def minus(self, other: "Pairs", op: Op) -> Any:
        """Return the difference of two draws where it is a draw."""
        if (known := self._with_one_known(other, op)) is not NotImplemented:
            return known
        x, y = self.form, other.form
        same = self.atom is other.atom and x.kind == y.kind and x.flip == y.flip
        if not same or x.kind not in ("u", "ea"):
            return self.refuse("the difference of two draws")
        return self._of_one_atom(other, op, x.a - y.a, lambda: _sum(x, y.affine(-1, 0)))

    def times(self, other: "Pairs", op: Op, power: int = 1) -> Any:
        """Return the product of two draws where it is a draw; the quotient for power -1."""
        if (known := self._with_one_known(other, op)) is not NotImplemented:
            return known
        x, y = self.form.centred(), other.form.centred()
        if power == -1 and y.kind in ("up", "ep"):
            y = y.power(-1)
        if x.kind == y.kind and x.kind in ("up", "ep"):
            if self.atom is other.atom and x.flip == y.flip:
                # Below zero the product of integers falls where it rose.
                for draw in (self, other):
                    if draw.holds_integers():
                        draw.is_below(0)
                form = Form(x.kind, x.a * y.a, x.b + y.b, x.flip)
                return self._of_one_atom(other, op, x.b + y.b, form.plain)
            if x.kind == "up" and x.b == y.b and not (x.flip or y.flip):
                return self._chained(other, op, Form("up", x.a * y.a, x.b).plain())
        return self.refuse("the product of two draws" if power == 1 else "a quotient of draws")

    def _with_one_known(self, other: "Pairs", op: Op) -> Any:
        """Settle one of the two, if that is needed and possible."""
        if not (self.has_steps() or other.has_steps() or self._are_few_integers(other)):
            return NotImplemented
        if self.atom is other.atom and not self.settles() and other.settles():
            return op(self, other.settle())
        if self.settles():
            return op(self.settle(), other)
        if other.settles():
            return op(self, other.settle())
        return self.refuse(f"{op.__name__} of a draw that was rounded and another draw")

    def _are_few_integers(self, other: "Pairs") -> bool:
        """Whether one of the two is an integer, of many before and of few by now."""
        return (self.holds_integers() and self.settles()) or (
            other.holds_integers() and other.settles()
        )

    def _of_one_atom(self, other: "Pairs", op: Op, slope: float, form: Callable[[], Form]) -> Any:
        """Return ``op`` of two functions of one uniform; a number where it is constant."""
        sample = op(self.machine.sample, other.machine.sample)
        if slope == 0:
            return sample
        x, y = self.machine.values(), other.machine.values()
        if isinstance(sample, int | np.integer):
            # Of integers the form is no guide where they wrap around.
            exact = (int(op(int(x(k)), int(y(k)))) == op(x(k), y(k)) for k in self.atom.span())
            if not all(exact):
                self.refuse(f"an overflow of {type(sample).__name__} in draws with many values")
        blur = self.machine.blur + other.machine.blur
        machine = Machine(None, lambda k: op(x(k), y(k)), sample, blur)
        return self.made(form(), machine)

    def _chained(self, other: "Pairs", op: Op, form: Form) -> Any:
        """Return a product, or a sum of logarithms, of independent draws."""
        if not (self.atom.single or other.atom.single):
            self.refuse("the product of two products of draws")
        first, last = (other, self) if not other.atom.single else (self, other)
        self.source.slack += self.form.slack + other.form.slack
        sample = op(self.machine.sample, other.machine.sample)
        machine = Machine(None, op, sample, self.machine.blur + other.machine.blur)
        return self.kind(self.source.chain(first.atom, last.atom), form, machine)

    def is_less(self, other: "Pairs") -> bool:
        """Whether this draw is below another."""
        if self.atom is other.atom:
            return self._less_of_one_atom(other)
        steps = self.has_steps() or other.has_steps()
        (x_low, x_high), (y_low, y_high) = self.range(inside=steps), other.range(inside=steps)
        if x_high < y_low or (x_high == y_low and not steps):
            return True
        if y_high <= x_low:
            return False
        known = self._with_one_known(other, _less)
        return self._is_first(other) if known is NotImplemented else bool(known)

    def _is_first(self, other: "Pairs") -> bool:
        source, x, y = self.source, self.atom, other.atom
        if not (x.single and y.single):
            source.refuse("a comparison of a product of draws with a draw")
        try:
            (family, rate_x, sense), (its, rate_y, _) = self.form.race(), other.form.race()
        except OverflowError:
            source.refuse("a race with weights beyond floating point")
        if family != its or math.isinf(rate_x) or math.isinf(rate_y):
            source.refuse("a comparison of two draws of different laws")
        if rate_x == 0 or rate_y == 0:
            # A weight that underflowed never arrives.
            x_first = rate_x > 0
            return rate_x != rate_y and (x_first if sense > 0 else not x_first)
        lost = (self.machine.blur * rate_x + other.machine.blur * rate_y) / (rate_x + rate_y)
        if lost > RACES:
            source.refuse("a race of draws that rounding swamps")
        source.slack += self.form.slack + other.form.slack
        racer_x = enter(source, x, rate_x, self.form.flip)
        racer_y = enter(source, y, rate_y, other.form.flip)
        x_first = first_is_less(source, racer_x, rate_x, racer_y, rate_y)
        return x_first if sense > 0 else not x_first

    def _less_of_one_atom(self, other: "Pairs") -> bool:
        x, y = self.form, other.form
        plain = x.inner is None and y.inner is None and (x.kind, x.flip) == (y.kind, y.flip)
        alike = plain and math.isclose(x.a, y.a) and math.isclose(x.b, y.b)
        if (alike or x == y) and not (self.has_steps() or other.has_steps()):
            # Rounding alone tells them apart, where they were computed in two ways.
            if self.machine.does_as(other.machine):
                return False
            return self.refuse("a comparison of one draw computed in two ways")
        if x.kind == y.kind and x.flip == y.flip and x.kind in ("u", "ea"):
            difference = self.minus(other, _minus)
            return bool(difference < 0.0)
        known = self._with_one_known(other, _less)
        if known is NotImplemented:
            return self.refuse("a comparison of two functions of one draw")
        return bool(known)


def _sum(x: Form, y: Form) -> Form:
    return Form(x.kind, x.a + y.a, x.b + y.b, x.flip, slack=x.slack + y.slack)


def _less(x: Any, y: Any) -> Any:
    return x < y


def _minus(x: Any, y: Any) -> Any:
    return x - y


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

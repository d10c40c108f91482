"""What a draw answers when it meets another.

Sums and products of two draws are followed where they have a law that is known. A comparison is a
race, or of one draw computed in two ways.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from simverify.symbolic.draws.several.races import enter, first_is_less
from simverify.symbolic.draws.values.forms import Form
from simverify.symbolic.draws.values.machine import RACES, Machine, boundary
from simverify.symbolic.draws.whole.integers import Integers
from simverify.symbolic.draws.whole.lines import Two, is_whole, line_of

Op = Callable[..., Any]

_CONSTANT = 1e-3
"""A difference that varies by more, relative to itself, is none that rounding leaves as it is."""


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
        atom = self.atom
        try:
            machine = Two(atom, self.machine, other.machine, op)
            whole = is_whole(machine.sample)
            if whole and slope != 0:
                x, y, both = self.machine.values(), other.machine.values(), machine.values()
                if not all(int(op(int(x(k)), int(y(k)))) == both(k) for k in atom.span()):
                    kind = type(machine.sample).__name__
                    self.refuse(f"an overflow of {kind} in draws with many values")
        except OverflowError:
            self.refuse(f"{op.__name__} of two results of one draw")
        # Of integers the form is no guide: it knows no bits that are shifted out.
        if whole and op in _SUMS and line_of(atom, machine) is None:
            self.refuse(f"{op.__name__} of two results of one draw")
        if slope == 0:
            ends = map(machine.values(), self.inner_span() if atom.single else ())
            if not all(math.isclose(x, machine.sample, rel_tol=_CONSTANT) for x in ends):
                # Rounding swallows what was added to some values, and not to others.
                self.refuse(f"{op.__name__} of two results of one draw")
            return machine.sample
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
        if (less := self._less_of_lines(other)) is not None:
            return less
        x, y = self.form, other.form
        plain = x.inner is None and y.inner is None and (x.kind, x.flip) == (y.kind, y.flip)
        alike = plain and math.isclose(x.a, y.a) and math.isclose(x.b, y.b)
        if (alike or x == y) and not (self.has_steps() or other.has_steps()):
            # Rounding alone tells them apart, where they were computed in two ways.
            if self.machine.does_as(other.machine):
                return False
            return self.refuse("a comparison of one draw computed in two ways")
        if x.kind == y.kind and x.flip == y.flip and x.kind in ("u", "ea"):
            difference = self.minus(other, operator.sub)
            return bool(difference < 0.0)
        known = self._with_one_known(other, _less)
        if known is NotImplemented:
            return self.refuse("a comparison of two functions of one draw")
        return bool(known)

    def _less_of_lines(self, other: "Pairs") -> bool | None:
        """Compare two integers that are lines of one draw; None where they are not."""
        atom, x, y = self.atom, self.machine, other.machine
        if not (is_whole(x.sample) and is_whole(y.sample)):
            return None
        one, another = line_of(atom, x), line_of(atom, y)
        if one is None or another is None:
            return None
        if one.a == another.a:
            return one.b < another.b
        (first, last), low, high = atom.span(), x.values(), y.values()
        point, below = boundary(lambda k: int(low(k)) < int(high(k)), first, last)
        if point > last:
            return below
        return atom.split(point / atom.points) == below


def _sum(x: Form, y: Form) -> Form:
    return Form(x.kind, x.a + y.a, x.b + y.b, x.flip, slack=x.slack + y.slack)


def _less(x: Any, y: Any) -> Any:
    return x < y


_SUMS = (operator.add, operator.sub)

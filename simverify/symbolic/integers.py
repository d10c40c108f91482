"""Draws that are integers, integer parts of others, and what a draw does with another draw.

Where few values are left, a draw that is asked for more than a comparison is settled: the
path forks once for each value, and the real library computes with a real number.
"""

# ruff: noqa: D102 - methods and functions whose name and types say what a docstring would

__simverify_role__ = "stand-in"


import math
import operator
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from simverify.symbolic.draw import DrawBase, guess_point
from simverify.symbolic.forms import (
    DOUBLE_UNIFORM,
    GUESS_RADIUS,
    MAX_RACE_BLUR,
    NO_OPERAND,
    OVERFLOW_ERRORS,
    PYTHON_SINGLE_UNIFORM,
    PYTHON_UNIFORM,
    SINGLE_UNIFORM,
    Form,
    IntegerMap,
    Machine,
    NotMonotone,
    find_boundary,
)
from simverify.symbolic.provenance import (
    IntOfDraw,
    TooManyValues,
    current_user_line,
    name_pairs,
    names,
)
from simverify.symbolic.races import (
    arrives_first,
    decide_narrowed,
    decide_rounded,
    enter_race,
)

if TYPE_CHECKING:
    from simverify.symbolic.races import Atom


# Runs of grid points at which a draw has one value, found by bisection.


_UNIFORM_OPERATIONS = {
    machine.op
    for machine in (PYTHON_UNIFORM, DOUBLE_UNIFORM, SINGLE_UNIFORM, PYTHON_SINGLE_UNIFORM)
}

_RUNS_CACHE: dict[tuple[Any, int, int], list[tuple[int, Any]] | None] = {}  # the last 64


def _machine_key(machine: Machine) -> tuple[Any, ...] | None:
    """Return what is equal for machines that do the same to uniforms alone; None: not known."""
    name: list[Any] = []
    while machine.before is not None:
        kind = type(machine.other)
        if machine.other is not NO_OPERAND and not issubclass(kind, int | float | np.generic):
            return None
        # A zero has a sign, and equal numbers of two types give others.
        name.append((machine.op, kind, repr(machine.other), machine.reverse))
        machine = machine.before
    root = machine.op
    # Of integers the type is remembered, not what a caller made to count them.
    known = (
        isinstance(root.kind, type) if isinstance(root, IntegerMap) else root in _UNIFORM_OPERATIONS
    )
    return (*name, root) if known else None


def machine_runs(
    machine: Machine,
    value: Callable[[int], Any],
    first: int,
    last: int,
    most: int,
    guess: Callable[[Any, Any], float],
) -> "list[tuple[int, Any]] | None":
    """Return the :func:`value_runs` of what a machine computes; the same ones come on each path."""
    name = _machine_key(machine)
    if name is None:
        return value_runs(value, first, last, most, guess)
    if (name, first, last) not in _RUNS_CACHE:
        while len(_RUNS_CACHE) >= 64:
            del _RUNS_CACHE[next(iter(_RUNS_CACHE))]
        _RUNS_CACHE[name, first, last] = value_runs(value, first, last, most, guess)
    return _RUNS_CACHE[name, first, last]


_MAX_GUESS_DISTANCE = 1024
"""So many points are worth a guess."""


def value_runs(
    value: Callable[[int], Any],
    first: int,
    last: int,
    most: int,
    guess: Callable[[Any, Any], float] | None = None,
) -> "list[tuple[int, Any]] | None":
    """Return ``(point, value)`` for each run of equal values; None if more than ``most``.

    ``guess``: near which point one of two values ends, to look there first. A negative zero is
    another value than zero: it has another sign, and another inverse.
    """
    low = value(first)
    runs, left = [(first, low)], [(first, low, last, value(last))]
    while left:
        low_point, low, high_point, high = left.pop()
        if low == high and (low or math.copysign(1, low) == math.copysign(1, high)):
            continue
        if high_point - low_point == 1:
            runs.append((high_point, high))
            if len(runs) > most:
                return None
            continue
        middles = [(low_point + high_point) // 2]
        if guess is not None and high_point - low_point > _MAX_GUESS_DISTANCE:
            point = guess(low, high)
            if low_point < point - GUESS_RADIUS and point + GUESS_RADIUS < high_point:
                middles = [int(point) + GUESS_RADIUS, int(point) - GUESS_RADIUS]
        for middle in middles:
            between = value(middle)
            left.append((middle, between, high_point, high))
            high_point, high = middle, between
        left.append((low_point, low, high_point, high))
    return runs


MAX_CELLS = 4096
FEW_CELLS = 16
"""Random integers out of at most so many fork at once; beyond, when they are compared."""

_END_TOLERANCE = 1e-13
"""Relative distance at which an end of a smooth draw's range counts as the integer there."""


def settle_few(step: Any) -> Any:
    """Return a draw with few values as a number: the path forks once for each."""
    few = isinstance(step, DrawPairs) and not step.has_many_cells()
    return step.settle() if few else step


# Integers that are exactly ``a n + b``, where ``n`` is the random integer that was drawn.
#
# A form is made of floats, 2**62 integers have more digits, and types of so many bits wrap around.
# So the operations of the machine are done again, on Python's integers, which do not wrap. What the
# machine computes may differ from that by a multiple of the type's size: the path forks wherever
# an operation wraps around, so that it is one multiple for all that is left of the draw.


_AFFINE_OPERATORS = tuple(getattr(operator, x) for x in names("add sub mul lshift neg pos abs"))
"""What leaves a line a line, ``abs`` where the sign is known."""


class AffineInteger(NamedTuple):
    """``a n + b`` for so many ``values`` of n in a row."""

    a: int
    b: int
    values: int


class BinaryMachine(Machine):
    """One operation on two results of one draw; its sample is of what is left of the draw."""

    __slots__ = ("first", "second", "with_both")

    def __init__(
        self, atom: "Atom", first: Machine, second: Machine, op: Callable[..., Any]
    ) -> None:
        x, y = first.values(), second.values()
        samples = first.sample, second.sample
        if atom.single:
            left = sum(atom.span()) // 2
            samples = x(left), y(left)
        blur = first.blur + second.blur
        super().__init__(None, lambda k: op(x(k), y(k)), op(*samples), blur)
        self.first, self.second, self.with_both = first, second, op


def is_integer(x: Any) -> bool:
    """Whether a number is an integer of Python's or of numpy's; no bool."""
    return isinstance(x, np.integer) or (isinstance(x, int) and not isinstance(x, bool))


def affine_integer_of(atom: "Atom", machine: Machine) -> AffineInteger | None:
    """Return the line that is computed from what is left of a draw; None where it is not known.

    More integers than points of the grid: all of them are meant, and a point is the first of as
    many as come before the next.
    """
    root = _drawn_integer(machine)
    if root is None or not atom.single or atom.owner is not None:
        return None
    first, last = atom.span()
    try:
        low, high = int(root.op(first)), int(root.op(last))
        value = machine.values()
        first_value, last_value = int(value(first)), int(value(last))
        start, end = _unwrapped_value(machine, low), _unwrapped_value(machine, high)
        a = _unwrapped_value(machine, low + 1) - start
        whole = int(root.op(atom.points - 1)) - int(root.op(0)) + 1
    except (*OVERFLOW_ERRORS, _NotAffine):
        return None
    if end - start != a * (high - low) or last_value - first_value != end - start:
        return None
    whole += (whole - 1) >> 53
    return AffineInteger(a, first_value - a * low, math.floor(whole * (atom.high - atom.low)))


class _NotAffine(Exception):
    """An operation leaves the lines, or the integers."""


def _drawn_integer(machine: Machine) -> Machine | None:
    """Return the random integer that all is computed from."""
    while True:
        if isinstance(machine, BinaryMachine):
            machine = machine.first
        elif machine.before is not None:
            machine = machine.before
        else:
            return machine if is_integer(machine.sample) else None


def _unwrapped_value(machine: Machine, n: int) -> int:
    """Return what the machine computes from n where nothing wraps around."""
    steps = []
    while machine.before is not None:
        steps.append(machine)
        machine = machine.before
    if isinstance(machine, BinaryMachine):
        both = (_unwrapped_value(x, n) for x in (machine.first, machine.second))
        n = _apply_unwrapped(machine.with_both, *both)
    for step in reversed(steps):
        if not is_integer(step.sample):
            raise _NotAffine
        # A cast makes another type of the same integer.
        if isinstance(step.op, type) or getattr(step.op, "__name__", "") == "_item":
            continue
        if step.other is NO_OPERAND:
            n = _apply_unwrapped(step.op, n)
        elif is_integer(step.other):
            other = int(step.other)
            n = _apply_unwrapped(step.op, *((other, n) if step.reverse else (n, other)))
        else:
            raise _NotAffine
    return n


def _apply_unwrapped(op: Callable[..., Any], *numbers: int) -> int:
    if op not in _AFFINE_OPERATORS:
        raise _NotAffine
    return int(op(*numbers))


# Integers mixed from a random one, as code mixes its seeds.
#
# ``(key + counter * 1_000_003) % 2**63`` is no monotone function of the counter, so nothing can be
# followed that asks how large it is. A seed is asked for less: which other seeds are the same, and
# of how many values, about equally likely, it is one. Both are known of remainders of ``a n + b``
# and of what maps integers one to one. Whatever else is done with such a number is refused.


_OPERATION_NAMES = {
    getattr(np, ufunc): name
    for ufunc, name in name_pairs(
        "add:add subtract:sub multiply:mul bitwise_xor:xor left_shift:lshift negative:neg "
        "invert:invert positive:pos"
    ).items()
}
"""By numpy's own ufuncs: another library's may have the name of one."""


class MixedInteger:
    """An integer mixed from ``atom``: one of ``values``; equal ``name``, equal number.

    ``kind``: its type. One of numpy's wraps around: an even multiple is one of fewer values.
    """

    def __init__(self, atom: "Atom", name: tuple[Hashable, ...], values: int, kind: type) -> None:
        self.atom = atom
        self.name = name
        self.values = values
        self.kind = kind

    # Code may ask for its type.
    __class__ = property(lambda self: self.kind)

    def as_python(self) -> "MixedInteger":
        return MixedInteger(self.atom, self.name, self.values, int)

    def __pos__(self) -> "MixedInteger":
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = _OPERATION_NAMES.get(ufunc)
        # Of Python's integers alone ufuncs make numpy's.
        if name is None or method != "__call__" or kwargs or self.kind is int:
            self._refuse()
        forward = inputs[0] is self
        operation = getattr(self, f"__{name}__" if forward else f"__r{name}__")
        return operation(*(inputs[1:] if forward else inputs[:1]))

    def __getattr__(self, name: str) -> NoReturn:
        # numpy asks for protocols, which it does without.
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        self._refuse()

    def _fits(self, x: Any) -> bool:
        """Whether what it makes of a number is of its own type, whichever value it has."""
        if type(x) is self.kind:
            return True
        ends = None if self.kind is int else np.iinfo(self.kind)
        return ends is not None and type(x) is int and int(ends.min) <= x <= int(ends.max)

    def _refuse(self, *_: Any) -> NoReturn:
        self.atom.source.refuse("a random integer mixed with % & or ^, used for more than a seed")


def _seed_preserving_method(name: str) -> Callable[..., MixedInteger]:
    def forward(self: MixedInteger, *other: Any) -> MixedInteger:
        wraps = self.kind is not int
        if not all(map(self._fits, other)):
            self._refuse()
        if name in ("mul", "rmul") and (other[0] == 0 or (wraps and other[0] % 2 == 0)):
            self._refuse()
        if name == "lshift" and wraps:
            self._refuse()
        # Where it wraps around is a matter of the type.
        path = (*self.name, self.kind, name, *map(int, other))
        return MixedInteger(self.atom, path, self.values, self.kind)

    return forward


for _name in names("add radd sub rsub mul rmul xor rxor lshift neg invert"):
    setattr(MixedInteger, f"__{_name}__", _seed_preserving_method(_name))
for _name in names(
    "eq ne lt le gt ge bool int index float hash repr str format iter len getitem contains abs "
    "round floor ceil trunc mod rmod divmod rdivmod floordiv rfloordiv truediv rtruediv pow rpow "
    "and rand or ror rshift rrshift rlshift array reduce_ex array_function"
):
    setattr(MixedInteger, f"__{_name}__", MixedInteger._refuse)


def mixed_remainder(draw: "DrawBase", modulus: int, kind: type) -> MixedInteger | None:
    """Return a drawn integer modulo ``modulus`` > 0, of type ``kind``; None if it is not known."""
    line = _nonconstant_line(draw)
    if line is None:
        return None
    values = min(line.values, modulus // math.gcd(line.a, modulus))
    name = id(draw.atom), line.a % modulus, line.b % modulus, modulus
    return MixedInteger(draw.atom, name, values, kind)


def mixed_bitwise(draw: Any, name: str, other: Any, op: Callable[..., Any]) -> MixedInteger | None:
    """Return ``draw & other`` or ``draw ^ other`` of many values, as a seed; None: not known."""
    whole = draw.holds_integers() and isinstance(other, int | np.integer)
    if not whole or draw.settles():
        return None
    kind = type(op(type(draw.machine.sample)(1), other))
    bits = int(other)
    if name == "&" and bits >= 0 and bits & (bits + 1) == 0:
        # The lowest bits are a remainder.
        lowest: MixedInteger = draw.modulo(bits + 1, above_low_bits, op, other)
        return lowest
    line = _nonconstant_line(draw) if name == "^" and draw.gives(kind, other) else None
    if line is None:
        return None
    return MixedInteger(draw.atom, (id(draw.atom), line.a, line.b, "xor", bits), line.values, kind)


def _nonconstant_line(draw: "DrawBase") -> AffineInteger | None:
    line = affine_integer_of(draw.atom, draw.machine)
    return None if line is None or line.a == 0 else line


def above_low_bits(x: Any, mask: Any) -> int:
    """Return the bits above those of a mask of the lowest ones."""
    return int(x) // (int(mask) + 1)


# Operations on two draws.
#
# Sums and products are followed where their law is known. A comparison is a race, or of one draw
# computed in two ways.


PairOperation = Callable[..., Any]

_CONSTANT_TOLERANCE = 1e-3
"""A difference that varies by more, relative to itself, is none that rounding leaves as it is."""


class DrawPairs(DrawBase):
    """What a draw answers where an integer is asked for, or when it meets another draw."""

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
        first = math.floor(low + _END_TOLERANCE * abs(low))
        return first, max(first, math.ceil(high - _END_TOLERANCE * abs(high)) - 1)

    def _ends(self) -> tuple[Any, Any]:
        """Return the extremes that the machine computes: no uniform is 1, where a form ends."""
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
        """Whether it has few enough values to follow each of them."""
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
            self.source.widest = len(runs), current_user_line()
        return self._run_value(runs)

    def _run_value(self, runs: list[tuple[int, Any]]) -> Any:
        """Fork on which of some runs it lies in, and return the run's value."""
        points = self.atom.points
        return runs[self.atom.locate([point / points for point, _ in runs[1:]])][1]

    def _runs(self) -> "list[tuple[int, Any]] | None":
        """Return the runs of equal values that are left; the same ones come again on each path."""
        value, first, last = self.grid()
        form, points = self.form, self.atom.points
        guess = lambda x, y: guess_point(form, (float(x) + float(y)) / 2, points)  # noqa: E731
        return machine_runs(self.machine, value, first, last, MAX_CELLS, guess)

    def on_values(self, op: Callable[..., Any], *others: Any, name: str) -> Any:
        """Return ``op`` of each of few values, raise what it raises, or refuse it by ``name``."""
        if self.settles():
            return op(self.settle(), *others)
        if not any(isinstance(x, DrawBase) for x in others):
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
        return settle_few(self.map(self.form.floor, op, *others))

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
        result = self.map(lambda: self.form, op)
        whole = isinstance(result, DrawPairs) and result.holds_integers()
        return result.within(self, op) if whole else result

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
        if isinstance(step, DrawPairs) and step.holds_integers():
            step = step.within(self, op)
        return settle_few(step)

    def nearest(self, op: Callable[..., Any], *others: Any) -> Any:
        """Return the nearest integer, half to even, as ``op`` computes it."""
        return self._rounded(lambda: self.form.affine(1, 0.5).floor(), op, *others)

    def ceiling(self, op: Callable[..., Any]) -> Any:
        """Return the ceiling as ``op`` computes it."""
        return self._rounded(lambda: self.form.affine(-1, 0).floor().affine(-1, 0), op)

    def _rounded(self, make: Callable[[], Any], op: Callable[..., Any], *others: Any) -> Any:
        if self.holds_integers() and not others:
            return self.map(lambda: self.form, op)
        if (end := self.infinite()) is not None:
            return op(end, *others)
        return self._stepped(make, op, *others)

    def whole(self, kind: Any = int) -> Any:
        return self.toward_zero(kind)

    def within(self, before: "DrawPairs", op: Callable[..., Any], *others: Any) -> Any:
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
            x = int(value(point))
            plain = x if isinstance(op, type) else int(op(x, *map(int, others)))
            return (plain - low) // size

        if wraps(first) == wraps(last) == 0:
            return self
        if not before.holds_integers():
            self.refuse(f"a cast of a draw beyond {kind.__name__}")
        if before.settles():
            return op(before.settle(), *others)
        runs = value_runs(wraps, first, last, FEW_CELLS)
        if runs is None:
            self.refuse(f"an overflow of {kind.__name__} in draws with many values")
        try:
            form = self.form.affine(1.0, -float(self._run_value(runs) * size))
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
        return whole.settle() if isinstance(whole, DrawPairs) else whole

    # -- what it does with another draw --

    def plus(self, other: "DrawPairs", op: PairOperation) -> Any:
        """Return the sum of two draws where it is a draw; ``op`` computes it."""
        if (known := self._with_one_known(other, op)) is not NotImplemented:
            return known
        x, y = self.form, other.form
        if self.atom is other.atom and x.kind == y.kind and x.kind in ("u", "ea"):
            if x.flip == y.flip:
                return self._of_one_atom(other, op, x.a + y.a, lambda: _sum_form(x, y))
        elif x.kind == y.kind == "ea" and x.a == y.a and not (x.flip or y.flip):
            return self._chained(other, op, Form("ea", x.a, x.b + y.b))
        return self.refuse("the sum of two draws")

    def minus(self, other: "DrawPairs", op: PairOperation) -> Any:
        if (known := self._with_one_known(other, op)) is not NotImplemented:
            return known
        x, y = self.form, other.form
        same = self.atom is other.atom and x.kind == y.kind and x.flip == y.flip
        if not same or x.kind not in ("u", "ea"):
            return self.refuse("the difference of two draws")
        return self._of_one_atom(other, op, x.a - y.a, lambda: _sum_form(x, y.affine(-1, 0)))

    def times(self, other: "DrawPairs", op: PairOperation, power: int = 1) -> Any:
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

    def _with_one_known(self, other: "DrawPairs", op: PairOperation) -> Any:
        """Settle one of the two, if that is needed and possible."""
        # An integer of few values may have been one of many before.
        few = (x.holds_integers() and x.settles() for x in (self, other))
        if not (self.has_steps() or other.has_steps() or any(few)):
            return NotImplemented
        if self.atom is other.atom and not self.settles() and other.settles():
            return op(self, other.settle())
        if self.settles():
            return op(self.settle(), other)
        if other.settles():
            return op(self, other.settle())
        return self.refuse(f"{op.__name__.strip('_')} of a draw that was rounded and another draw")

    def _of_one_atom(
        self, other: "DrawPairs", op: PairOperation, slope: float, form: Callable[[], Form]
    ) -> Any:
        """Return ``op`` of two functions of one uniform; a number where it is constant."""
        atom = self.atom
        try:
            machine = BinaryMachine(atom, self.machine, other.machine, op)
            whole = is_integer(machine.sample)
            if whole and slope != 0:
                x, y, both = self.machine.values(), other.machine.values(), machine.values()
                if not all(int(op(int(x(k)), int(y(k)))) == both(k) for k in atom.span()):
                    kind = type(machine.sample).__name__
                    self.refuse(f"an overflow of {kind} in draws with many values")
        except OverflowError:
            self.refuse(f"{op.__name__} of two results of one draw")
        # Of integers the form is no guide: it knows no bits that are shifted out.
        if whole and op in _SUM_OPERATORS and affine_integer_of(atom, machine) is None:
            self.refuse(f"{op.__name__} of two results of one draw")
        if slope == 0:
            ends = map(machine.values(), self.inner_span() if atom.single else ())
            if not all(math.isclose(x, machine.sample, rel_tol=_CONSTANT_TOLERANCE) for x in ends):
                # Rounding swallows what was added to some values, and not to others.
                self.refuse(f"{op.__name__} of two results of one draw")
            return machine.sample
        return self.made(form(), machine)

    def _chained(self, other: "DrawPairs", op: PairOperation, form: Form) -> Any:
        """Return a product, or a sum of logarithms, of independent draws."""
        if not (self.atom.single or other.atom.single):
            self.refuse("the product of two products of draws")
        first, last = (other, self) if not other.atom.single else (self, other)
        self.source.slack += self.form.slack + other.form.slack
        sample = op(self.machine.sample, other.machine.sample)
        machine = Machine(None, op, sample, self.machine.blur + other.machine.blur)
        return self.kind(self.source.chain(first.atom, last.atom), form, machine)

    def is_less(self, other: "DrawPairs") -> bool:
        if self.atom is other.atom:
            return self._less_of_one_atom(other)
        steps = self.has_steps() or other.has_steps()
        (x_low, x_high), (y_low, y_high) = self.range(inside=steps), other.range(inside=steps)
        if x_high < y_low or (x_high == y_low and not steps):
            return True
        if y_high <= x_low:
            return False
        if steps and (first := decide_rounded([other, self], largest=False)) is not None:
            return first == 1
        known = self._with_one_known(other, _less)
        return self._is_first(other) if known is NotImplemented else bool(known)

    def _is_first(self, other: "DrawPairs") -> bool:
        source, x, y = self.source, self.atom, other.atom
        if not (x.single and y.single):
            source.refuse("a comparison of a product of draws with a draw")
        try:
            (family, rate_x, sense), (its, rate_y, _) = self.form.race(), other.form.race()
        except OverflowError:
            source.refuse("a race with weights beyond floating point")
        if family != its or math.isinf(rate_x) or math.isinf(rate_y):
            source.refuse("a comparison of two draws with different distributions")
        if rate_x == 0 or rate_y == 0:
            # A weight that underflowed never arrives.
            x_first = rate_x > 0
            return rate_x != rate_y and (x_first if sense > 0 else not x_first)
        lost = (self.machine.blur * rate_x + other.machine.blur * rate_y) / (rate_x + rate_y)
        if lost > MAX_RACE_BLUR:
            if (first := decide_rounded([other, self], largest=False)) is not None:
                return first == 1
            source.refuse("a race of draws that rounding swamps")
        source.slack += self.form.slack + other.form.slack
        flip = self.form.flip
        narrowed = (x.low, x.high, y.low, y.high) != (0, 1, 0, 1)
        if narrowed and x.owner is None is y.owner and flip == other.form.flip:
            x_first = decide_narrowed(source, (x, y), (rate_x, rate_y), flip=flip) == 0
            return x_first if sense > 0 else not x_first
        racer_x = enter_race(source, x, rate_x, flip)
        racer_y = enter_race(source, y, rate_y, other.form.flip)
        x_first = arrives_first(source, racer_x, rate_x, racer_y, rate_y)
        return x_first if sense > 0 else not x_first

    def _less_of_one_atom(self, other: "DrawPairs") -> bool:
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

    def _less_of_lines(self, other: "DrawPairs") -> bool | None:
        """Compare two integers that are lines of one draw; None where they are not."""
        atom, x, y = self.atom, self.machine, other.machine
        if not (is_integer(x.sample) and is_integer(y.sample)):
            return None
        one, another = affine_integer_of(atom, x), affine_integer_of(atom, y)
        if one is None or another is None:
            return None
        if one.a == another.a:
            return one.b < another.b
        (first, last), low, high = atom.span(), x.values(), y.values()
        point, below = find_boundary(lambda k: int(low(k)) < int(high(k)), first, last)
        if point > last:
            return below
        return atom.split(point / atom.points) == below


def _sum_form(x: Form, y: Form) -> Form:
    return Form(x.kind, x.a + y.a, x.b + y.b, x.flip, slack=x.slack + y.slack)


def _less(x: Any, y: Any) -> Any:
    return x < y


_SUM_OPERATORS = (operator.add, operator.sub)

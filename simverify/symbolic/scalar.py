"""Symbolic scalars: comparisons, arithmetic, bits and attributes of a draw.

Each operation is recorded as it was meant (form) and as it is computed (machine).
"""

# ruff: noqa: D102, D103 - methods and functions whose name and types say what a docstring would

__simverify_role__ = "stand-in"


import math
import operator
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.symbolic.draw import apply_with_array
from simverify.symbolic.forms import (
    DOUBLE_POINTS,
    IDENTITY_FORM,
    PYTHON_UNIFORM,
    SINGLE_POINTS,
    Form,
    Machine,
)
from simverify.symbolic.integers import (
    DrawPairs,
    is_integer,
    mixed_bitwise,
    mixed_remainder,
    settle_few,
)
from simverify.symbolic.provenance import ArrayOfDraws, FloatOfDraw, names
from simverify.symbolic.races import DecisionKind

if TYPE_CHECKING:
    from simverify.symbolic.races import DrawPath


# What the operators of draws are made of.


_PYTHON_TYPES = (float, int, bool)


def _comparison(ufunc: Any, decide: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """Return the method of a comparison; ``decide(draw, x)`` is that with a number."""

    def compare(self: "Draw", other: Any) -> Any:
        if self.number(other) is None:
            return self._with_another(other, ufunc)
        answer = decide(self, other)
        # As the real types give it: ``~`` of numpy's is another matter.
        plain = type(self.machine.sample) in _PYTHON_TYPES and type(other) in _PYTHON_TYPES
        return answer if plain else np.bool_(answer)

    return compare


NEGLIGIBLE_PROBABILITY = 2e-7
"""Clipping a draw on less than this probability is no step for the races it enters."""

BinaryOperation = Callable[..., Any]


def _operator(
    ufunc: Any,
    op: BinaryOperation,
    scale: float | None,
    sign: float,
    of_two: Callable[..., Any] | None = None,
) -> Callable[[Any, Any], Any]:
    """Return the method of an operator; with a number x the result is a line in the draw.

    Its slope is ``scale``, or x if that is None, and its shift ``sign`` times x. ``of_two``: what
    it is with another draw; without one, the draw stands behind the operator.
    """
    reverse = of_two is None

    def operate(self: "Draw", other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if scale is None:
                return self.affine(x, 0.0, op, other, reverse=reverse)
            return self.affine(scale, sign * x, op, other, reverse=reverse)
        if of_two is None:
            return apply_with_array(ufunc, other, self)
        if isinstance(other, Draw):
            return of_two(self, other, op)
        return apply_with_array(ufunc, self, other)

    return operate


MIN_CONTINUOUS_RANGE = 2**31
"""Integers below a range this large are read as a continuous uniform (error 1 / range)."""

_MAX_SHIFT = 1000
"""A shift by so many is still a factor that a float holds."""

_TYPE_ATTRIBUTES = names("base device dtype flags itemsize nbytes ndim shape size strides")

_ROUNDING_METHODS = {"__floor__": "floored", "__ceil__": "ceiled", "__trunc__": "__int__"}
"""What only some types have, so that no draw has it of its own: what answers for those."""

OBJECT_LOOPS: dict[str, Callable[[Any], Any]] = {}
"""What numpy calls by name on elements of an array of objects; ``symbolic.arrays`` fills it."""


_BOXING_MARKS: list[bool] = []
"""Holds something while this package makes an array of objects itself."""


def nested_object_array(data: Any) -> "np.ndarray[Any, Any]":
    """Return nested lists as an array of objects, which keep the types that they have."""
    _BOXING_MARKS.append(True)
    try:
        return np.array(data, dtype=object)
    finally:
        _BOXING_MARKS.pop()


def swap_arguments(op: BinaryOperation) -> BinaryOperation:
    return lambda x, y: op(y, x)


# Symbolic scalars: a uniform, and anything monotone in one.
#
# Comparing a draw with a number forks the path and narrows the uniform's interval; the
# narrowed uniform stays the same draw, so code that uses it twice gets what it deserves.


class ArrayHooks:
    """What draws need of arrays of draws, which are built on them and fill this in."""

    apply_ufunc: Callable[..., Any]
    apply_function: Callable[..., Any]
    known: Callable[..., Any]
    of: Callable[..., Any]
    holding: Callable[..., Any]


ARRAY_HOOKS = ArrayHooks()


class Draw(DrawPairs):
    """``form`` of ``atom``, computed as ``machine`` says; all symbolic scalars."""

    __slots__ = ()

    @staticmethod
    def kind(atom: Any, form: Form, machine: Machine) -> "Draw":
        """Return what is computed: a draw, of a class of its own if it is an integer."""
        whole = isinstance(machine.sample, int | np.integer)
        return (IntegerDraw if whole else Draw)(atom, form, machine)

    def __getitem__(self, index: Any) -> Any:
        """Index as a numpy scalar is: ``u[..., None]`` is an array of one."""
        if not isinstance(self.machine.sample, np.generic):
            return self.machine.sample[index]  # which raises
        return ARRAY_HOOKS.holding(self)[index]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAY_HOOKS.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return ARRAY_HOOKS.apply_function(func, types, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError(f"{func.__name__} of a draw")  # the mode that follows torch comes first

    # -- comparisons: with a number, which forks the path, or with another draw --

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

    __lt__ = _comparison(np.less, lambda u, x: u.is_below(x))
    __gt__ = _comparison(np.greater, lambda u, x: x == x and not u.is_below(x, closed=True))
    __le__ = _comparison(np.less_equal, lambda u, x: u.is_below(x, closed=True))
    __ge__ = _comparison(np.greater_equal, lambda u, x: x == x and not u.is_below(x))
    __eq__ = _comparison(np.equal, lambda u, x: u.is_at(x))
    __ne__ = _comparison(np.not_equal, lambda u, x: not u.is_at(x))

    def __bool__(self) -> bool:
        return not self.is_at(0)

    def _with_another(self, other: Any, ufunc: Any) -> Any:
        if isinstance(other, Draw):
            if self.is_weak_beside(other.machine.sample):
                return ufunc(self.cast(np.float16), other)
            if other.is_weak_beside(self.machine.sample):
                return ufunc(self, other.cast(np.float16))
        else:
            array = isinstance(other, np.ndarray)
            if ufunc in (np.equal, np.not_equal) and not array:
                return NotImplemented
            return apply_with_array(ufunc, self, other)
        if ufunc in (np.equal, np.not_equal):
            return self._is_same(other) == (ufunc is np.equal)
        if self._is_copy(other):
            return ufunc not in (np.less, np.greater)
        if ufunc in (np.less, np.greater):
            return self.is_less(other) if ufunc is np.less else other.is_less(self)
        # At most the other: not above it.
        return not (other.is_less(self) if ufunc is np.less_equal else self.is_less(other))

    def _is_copy(self, other: "Draw") -> bool:
        """Whether it is one draw, computed in one way."""
        alike = self.atom is other.atom and self.form == other.form
        return self is other or (alike and self.machine.does_as(other.machine))

    def _is_same(self, other: "Draw") -> bool:
        if self._is_copy(other):
            return True
        if self.atom is other.atom and (less := self._less_of_lines(other)) is not None:
            return not (less or other._less_of_lines(self))
        if not (self.has_values() or other.has_values()):
            if self.atom is not other.atom or self.form != other.form:
                return False
            return self.refuse("whether one draw computed in two ways is equal")
        (x_low, x_high), (y_low, y_high) = self.range(inside=True), other.range(inside=True)
        if x_high < y_low or y_high < x_low:
            return False
        if self.settles():
            return bool(other == self.settle())
        if other.settles():
            return bool(self == other.settle())
        return self.refuse("whether two draws that were rounded are equal")

    # -- arithmetic: each operation as it was meant and as it is computed --

    def affine(
        self, scale: float, shift: float, op: BinaryOperation, *args: Any, reverse: bool = False
    ) -> Any:
        """Return ``scale * draw + shift``, which the machine computes as ``op``."""
        if scale == 0 or not (math.isfinite(shift) and math.isfinite(scale)):
            value = self.machine.sample
            if type(value) is int and any(isinstance(x, np.integer) for x in args):
                # What the other's type cannot hold raises.
                product = swap_arguments(op) if reverse else op
                return self.on_values(product, *args, name="a product")
            if math.isinf(scale) or (self.source.signs_zeros and not self.holds_integers()):
                # The same for all values of one sign.
                value = type(value)(-1 if self.is_below(0) else 0 if self.is_at(0) else 1)
            return op(*args, value) if reverse else op(value, *args)
        result = self.map(lambda: self.form.affine(scale, shift), op, *args, reverse=reverse)
        return self._wrapped(result, swap_arguments(op) if reverse else op, *args)

    def _wrapped(self, result: Any, op: BinaryOperation, *args: Any) -> Any:
        """Return the result of ``op``, forked by how often it wraps around."""
        if isinstance(result, Draw) and isinstance(result.machine.sample, np.integer):
            return result.within(self, op, *args)
        return result

    def clip_at(self, bound: Any, *, low: bool, op: Callable[..., Any]) -> Any:
        """Return the larger (``low``) or smaller of the draw and a number, which is ``op``."""
        if type(self.machine.sample) is int and isinstance(bound, np.integer):
            # What the bound's type cannot hold raises.
            return self.on_values(op, bound, name=op.__name__)
        same = op(self.machine.sample, bound)
        atom, form = self.atom, self.form
        if bound != bound:
            # Some functions pass over what is no number, others give it back.
            return same if same != same else self.map(lambda: form, op, bound)
        t, increasing = self.threshold(bound)
        outside = t - atom.low if increasing == low else atom.high - t
        if outside > 0:
            few = outside <= NEGLIGIBLE_PROBABILITY * (atom.high - atom.low)
            if few and atom.single and atom.owner is None:
                form = form.off_by(outside)
            elif self.is_below(bound) == low:
                return type(same)(bound)
        elif type(same) is type(self.machine.sample):
            return self
        return self.map(lambda: form, op, bound)

    def power(self, k: float, op: BinaryOperation, *args: Any) -> Any:
        """Return ``draw ** k``, which the machine computes as ``op``."""
        if self.holds_integers():
            return self.on_values(op, *args, name="a power")
        return self.map(lambda: self.form.power(k), op, *args)

    __add__ = _operator(np.add, operator.add, 1.0, 1.0, DrawPairs.plus)
    __radd__ = _operator(np.add, operator.add, 1.0, 1.0)
    __sub__ = _operator(np.subtract, operator.sub, 1.0, -1.0, DrawPairs.minus)
    __rsub__ = _operator(np.subtract, operator.sub, -1.0, 1.0)
    __mul__ = _operator(np.multiply, operator.mul, None, 0.0, DrawPairs.times)
    __rmul__ = _operator(np.multiply, operator.mul, None, 0.0)

    def __truediv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            scale = 1 / x if x != 0 else math.copysign(math.inf, x)
            return self.affine(scale, 0.0, operator.truediv, other)
        if isinstance(other, Draw):
            return self.times(other, operator.truediv, -1)
        return apply_with_array(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if x == 0 or not math.isfinite(x):
                if x:
                    self.refuse(f"{x} divided by a draw")
                # A zero with a sign, and no number where the draw is zero.
                sign = -1 if self.is_below(0) else 0 if self.is_at(0) else 1
                return operator.truediv(other, type(self.machine.sample)(sign))
            if self.holds_integers():
                return self.on_values(swap_arguments(operator.truediv), other, name="a division")
            make = lambda: self.form.power(-1.0).affine(x, 0.0)  # noqa: E731
            return self.map(make, operator.truediv, other, reverse=True)
        return apply_with_array(np.divide, other, self)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return self.on_values(pow, other, modulo, name="a power")
        if (x := self.number(other)) is not None:
            if x == 0 and not self.holds_integers():
                return operator.pow(self.machine.sample, other)
            return self.power(x, operator.pow, other)
        if isinstance(other, Draw):
            return self.on_values(operator.pow, other, name="a power")
        return apply_with_array(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if x > 0 and x != 1 and not self.holds_integers():
                logarithm = math.log(x)
                make = lambda: self.form.affine(logarithm, 0.0).exp()  # noqa: E731
                return self.map(make, operator.pow, other, reverse=True)
            return self.on_values(swap_arguments(operator.pow), other, name="a power")
        return apply_with_array(np.power, other, self)

    def __floordiv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None:
            if x == 0 or not math.isfinite(x):
                return self.on_values(operator.floordiv, other, name=f"division by {x}")
            return self.floor_of(1 / x, operator.floordiv, other)
        if isinstance(other, Draw):
            return self.on_values(operator.floordiv, other, name="a floor division")
        return apply_with_array(np.floor_divide, self, other)

    def floor_of(self, scale: float, op: BinaryOperation, *args: Any) -> Any:
        """Return the floor of ``scale * draw``, which the machine computes as ``op``."""
        step = self.map(lambda: self.form.affine(scale, 0.0).floor(), op, *args)
        if self.holds_integers():
            # The smallest integer divided by -1 is beyond the largest.
            step = self._wrapped(step, op, *args)
        return settle_few(step)

    def __rfloordiv__(self, other: Any) -> Any:
        if (x := self.number(other)) is not None and x > 0 and not self.holds_integers():
            make = lambda: self.form.power(-1.0).affine(x, 0.0).floor()  # noqa: E731
            return self.map(make, operator.floordiv, other, reverse=True)
        return self.on_values(swap_arguments(operator.floordiv), other, name="a floor division")

    def __mod__(self, other: Any) -> Any:
        x = self.number(other)
        if x is None:
            if isinstance(other, np.ndarray):
                return apply_with_array(np.remainder, self, other)
            return self.on_values(operator.mod, other, name="a remainder")
        if x > 0 and math.isfinite(x):
            return self.modulo(other, operator.floordiv, operator.mod, other)
        return self.on_values(operator.mod, other, name=f"a remainder by {x}")

    def modulo(
        self, modulus: Any, periods: BinaryOperation, op: BinaryOperation, other: Any
    ) -> Any:
        """Return what whole ``periods`` leave; ``op`` computes it with ``other``, as they are."""
        x = float(modulus)
        cells = self.map(lambda: self.form.affine(1 / x, 0.0).floor(), periods, other)
        if not isinstance(cells, Draw):
            self.refuse("a remainder by next to nothing")
        first, last = cells.cells()
        if self.settles() and first < last:
            return self.on_values(op, other, name=f"a remainder by {x}")
        if first < last:
            if cells.has_many_cells():
                kind, result = type(op(type(self.machine.sample)(1), other)), None
                if self.gives(kind, other) and is_integer(modulus):
                    result = mixed_remainder(self, int(modulus), kind)
                if result is None:
                    self.refuse("the remainder of a draw with many periods")
                return result
            first = int(cells.settle())
        return self.map(lambda: self.form.affine(1.0, -x * first), op, other)

    def gives(self, kind: type, other: Any) -> bool:
        """Whether an operation with a number is of integers of one type, whatever the value."""
        sample_type = type(self.machine.sample)
        return is_integer(kind()) and (
            issubclass(sample_type, np.integer) or sample_type is type(other) is int
        )

    def __rmod__(self, other: Any) -> Any:
        return self.on_values(swap_arguments(operator.mod), other, name="a remainder")

    def __divmod__(self, other: Any) -> Any:
        rest = self % other
        return self // other, rest

    def __rdivmod__(self, other: Any) -> Any:
        return self.on_values(swap_arguments(divmod), other, name="a remainder")

    def __neg__(self) -> Any:
        return self.affine(-1.0, 0.0, operator.neg)

    def __pos__(self) -> Any:
        return self.map(lambda: self.form, operator.pos)

    def __abs__(self) -> Any:
        if self.is_below(0):
            return self.affine(-1.0, 0.0, operator.abs)
        return self.map(lambda: self.form, operator.abs)

    # -- shifts, and operations on the bits of an integer --

    def _shifts(self, op: BinaryOperation, bits: Any) -> bool:
        """Whether a shift can be followed; raises what its type does of 0, which always fits."""
        op(type(self.machine.sample)(0), bits)
        return isinstance(bits, int | np.integer) and bool(0 <= bits <= _MAX_SHIFT)

    def __rshift__(self, bits: Any) -> Any:
        if not self._shifts(operator.rshift, bits):
            return self.on_values(operator.rshift, bits, name="a shift")
        form = self.form
        if form.kind == "u" and form.a / 2.0 ** int(bits) >= MIN_CONTINUOUS_RANGE:
            return self.map(lambda: form.affine(2.0 ** -int(bits), 0.0), operator.rshift, bits)
        return self.floor_of(2.0 ** -int(bits), operator.rshift, bits)

    def __lshift__(self, bits: Any) -> Any:
        if not self._shifts(operator.lshift, bits):
            return self.on_values(operator.lshift, bits, name="a shift")
        return self.affine(2.0 ** int(bits), 0.0, operator.lshift, bits)

    def __rlshift__(self, other: Any, op: BinaryOperation = operator.lshift) -> Any:
        op(other, type(self.machine.sample)(0))
        return op(other, self.settle()) if self.settles() else self.refuse("a shift by a draw")

    def __rrshift__(self, other: Any) -> Any:
        return self.__rlshift__(other, operator.rshift)

    def __invert__(self) -> Any:
        operator.invert(type(self.machine.sample)(1))
        return self.on_values(operator.invert, name="~")

    # -- every other attribute, method and conversion of a number --

    # One rule for all of them. What depends on the type alone is answered by a sample of that type;
    # a few methods have a rule of their own, below; what the real type lacks raises what it raises;
    # and the rest is done on each value, where few are left, or is refused by name.

    def __getattr__(self, name: str) -> Any:
        if name in _ROUNDING_METHODS and hasattr(self.machine.sample, name):
            return getattr(self, _ROUNDING_METHODS[name])
        # numpy asks for protocols, by which an array of draws would become numbers.
        if name.startswith("__"):
            if name == "__array_struct__" and self.source.refuses_arrays and not _BOXING_MARKS:
                self.refuse("an array that numpy makes of draws", ArrayOfDraws)
            raise AttributeError(f"a draw has no attribute {name!r}")
        if name in OBJECT_LOOPS:
            return lambda: OBJECT_LOOPS[name](self)
        if isinstance(vars(np).get(name), np.ufunc) and not hasattr(self.machine.sample, name):
            self.refuse(f"np.{name} of draws")
        answer = getattr(self.machine.sample, name)
        if name in _TYPE_ATTRIBUTES:
            return answer
        rule = _ATTRIBUTE_RULES.get(name)
        if rule is not None:
            return rule(self)
        return self.on_values(lambda x: getattr(x, name), name=f".{name}")

    def __float__(self) -> float:
        return self.refuse("float() of a draw", FloatOfDraw)

    def __complex__(self) -> complex:
        return self.refuse("complex() of a draw")

    def __hash__(self) -> int:
        if self.settles():
            return hash(self.settle())
        return self.refuse("hash() of a draw (in a set, as a key, in a cache)")

    def __str__(self) -> str:
        return str(self.on_values(str, name="str()"))

    def __repr__(self) -> str:
        return str(self.on_values(repr, name="repr()"))

    def __format__(self, spec: str) -> str:
        return str(self.on_values(format, spec, name="formatting"))

    def __reduce__(self) -> NoReturn:
        self.refuse("pickling of a draw")

    def __copy__(self) -> "Draw":
        return self

    def __deepcopy__(self, memo: Any) -> "Draw":
        return self

    @property
    def _numba_type_(self) -> NoReturn:
        self.refuse("a draw passed to a function compiled by numba")

    # Python would otherwise iterate by index, and find nothing.
    __iter__ = None

    # -- rounding --

    def floored(self) -> Any:
        return self.floor(int) if self.range()[0] >= 0 else self.floor(_floor)

    def ceiled(self) -> Any:
        return self.ceiling(_ceil)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self.nearest(round)
        if digits == 0:
            return self.nearest(round, 0)
        return self.rounded_to(digits, round)

    def rounded_to(self, digits: int, op: Callable[..., Any]) -> Any:
        """Return it with so many decimals, as ``op`` rounds."""
        if self.holds_integers():
            return self.on_values(op, digits, name="round()")
        scale = 10.0**digits
        form = self.form
        step = self.map(lambda: form.affine(scale, 0.5).floor().affine(1 / scale, 0.0), op, digits)
        if isinstance(step, Draw):
            step.machine.blur = float("inf")
        return step

    def as_type(self, dtype: Any) -> Any:
        """Return it as a number of numpy's type: a draw, or one of few integers."""
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return np.bool_(bool(self))
        return self.whole(kind.type) if kind.kind in "iu" else self.cast(kind)

    def as_python(self) -> Any:
        if isinstance(self.machine.sample, np.generic):
            return self.map(lambda: self.form, _item)
        return self


def _item(x: Any) -> Any:
    return x.item()


def _floor(x: Any) -> int:
    return int(np.floor(x))


def _ceil(x: Any) -> int:
    return int(np.ceil(x))


def _round(draw: Draw) -> Callable[..., Any]:
    return lambda decimals=0, out=None: np.round(draw, decimals, out)


def _astype(draw: Draw) -> Callable[..., Any]:
    def astype(dtype: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            draw.machine.sample.astype(dtype, *args, **kwargs)  # for what it raises
        return draw.as_type(dtype)

    return astype


def _is_integer(draw: Draw) -> Callable[[], bool]:
    if draw.holds_integers() or draw.has_values():
        return draw.on_values(lambda x: x.is_integer, name=".is_integer()")  # type: ignore[no-any-return]
    return lambda: False


_ATTRIBUTE_RULES: dict[str, Callable[[Any], Any]] = {
    "real": lambda draw: draw,
    "imag": lambda draw: draw.machine.sample.imag,
    "conjugate": lambda draw: lambda: draw,
    "conj": lambda draw: lambda: draw,
    "copy": lambda draw: lambda: draw,
    "numerator": lambda draw: draw,
    "denominator": lambda draw: draw.machine.sample.denominator,
    "item": lambda draw: draw.as_python,
    "tolist": lambda draw: draw.as_python,
    "astype": _astype,
    "round": _round,
    "clip": lambda draw: lambda *bounds, **given: np.clip(draw, *bounds, **given),
    "is_integer": _is_integer,
}


def _install_bitwise(name: str, op: BinaryOperation) -> None:
    def install(side: str, alone: BinaryOperation) -> None:
        def bitwise(self: Draw, other: Any) -> Any:
            result = mixed_bitwise(self, name, other, op)
            return self.on_values(alone, other, name=name) if result is None else result

        setattr(Draw, f"__{side}{op.__name__.strip('_')}__", bitwise)

    install("", op)
    install("r", swap_arguments(op))


for _sign, _op in (("&", operator.and_), ("|", operator.or_), ("^", operator.xor)):
    _install_bitwise(_sign, _op)


class IntegerDraw(Draw):
    """A draw of a type of integers: others have no ``__index__``, and code may ask."""

    __slots__ = ()

    def __index__(self) -> Any:
        return operator.index(self.settle())


class Uniform(Draw):
    """A uniform on [0, 1), known by now to lie in [low, high).

    It is one of ``points`` multiples of 1 / points. ``owner`` is the race or product that it
    takes part in, once one was decided.
    """

    __slots__ = ("_epoch", "_source", "high", "low", "owner", "points")

    single = True

    def __init__(self, source: "DrawPath") -> None:
        self._source = source
        self._epoch = source.epoch
        self.low = 0.0
        self.high = 1.0
        self.owner: Any = None
        self.points = DOUBLE_POINTS
        self.atom = self
        self.form = IDENTITY_FORM
        self.machine = PYTHON_UNIFORM

    @property
    def source(self) -> "DrawPath":
        return self._source

    def __lt__(self, other: Any) -> Any:
        if (
            type(other) is float
            and self.machine is PYTHON_UNIFORM
            and self._epoch == self._source.epoch
        ):
            if self.low < other < self.high:
                return self.split(other)
            return other >= self.high  # False for NaN
        return Draw.__lt__(self, other)

    def check_epoch(self) -> None:
        if self._epoch != self._source.epoch:
            self.refuse("a draw that an earlier call kept")

    def span(self) -> tuple[int, int]:
        self.check_epoch()
        return self._left()

    def _left(self) -> tuple[int, int]:
        first = _ceil_point(self.low * self.points)
        return first, max(first, _ceil_point(self.high * self.points) - 1)

    def split(self, bound: float) -> bool:
        """Fork on a bound strictly inside the interval; true if below."""
        self.check_epoch()
        if self.owner is not None:
            self.refuse("a draw compared with a number after it was compared with a draw")
        share = (bound - self.low) / (self.high - self.low)
        ends = self.low, bound, self.high
        below = self._source.fork((share, 1 - share), DecisionKind.BOUND, self, ends) == 0
        if below:
            self.high = bound
        else:
            self.low = bound
        return below

    def between(self, part: float) -> float:
        """Return a number of its interval, so far from the lower end; of a coarse grid a point."""
        if self.points > SINGLE_POINTS:
            return self.low + (self.high - self.low) * part
        first, last = self._left()
        # In the middle of what is rounded down to the point.
        return (first + int((last - first + 1) * part) + 0.5) / self.points

    def locate(self, cuts: "list[float]") -> int:
        """Return how many of the ascending ``cuts`` it has passed; one fork for all."""
        self.check_epoch()
        low, high = self.low, self.high
        # Lists, not generators: a token of a large vocabulary has a cut for each.
        if not (cuts and low <= cuts[0] and cuts[-1] <= high):
            cuts = [low if c < low else high if c > high else c for c in cuts]
        ends = [low, *cuts, high]
        width = high - low
        weights = [(b - a) / width for a, b in pairwise(ends)]
        if len(weights) - weights.count(0.0) > 1:
            if self.owner is not None:
                self.refuse("a draw compared with a number after it was compared with a draw")
            cell = self._source.fork(weights, DecisionKind.OUTCOME, self, ends)
            self.low, self.high = ends[cell], ends[cell + 1]
            return cell
        return max(range(len(weights)), key=weights.__getitem__)


def uniform_on_grid(u: Any, machine: Machine, points: int, form: Form = IDENTITY_FORM) -> Any:
    """Return a uniform of another grid or type, meant to be ``form``; on replay a number."""
    if not isinstance(u, Uniform):
        return machine.op(min(int(u * points), points - 1))
    u.points = points
    return Draw.kind(u, form, machine)


def exponential_from(u: Uniform) -> Any:
    """Return a standard exponential, which is -log of a uniform in law."""
    return u.map(lambda: u.form.log().affine(-1.0, 0.0), _negative_log)


def _negative_log(u: float) -> float:
    return -math.log(u)


def _ceil_point(x: float) -> int:
    """Return the first point not below ``x``, which may be one that was divided and multiplied."""
    nearest = round(x)
    return nearest if abs(x - nearest) <= 2.0**-50 * max(1.0, x) else math.ceil(x)

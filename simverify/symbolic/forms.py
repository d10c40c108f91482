"""Forms and machines of draws: the function of a uniform that is meant, and its rounding.

With v = u or 1 - u and E = -log v (a standard exponential), a form is one of

=========  ==================  =========================================
kind       value               arises from
=========  ==================  =========================================
``u``      a u + b             scaling, shifting, ``1 - u``
``up``     a v**b              powers, reciprocals
``ea``     a E + b             ``-log(u)``, exponential draws
``ep``     a E**b              ``p / E``
``le``     a log(E) + b        Gumbel noise plus logits
``g``      op(inner)           anything else that is monotone, with steps too
=========  ==================  =========================================

The first five are what races and products (:mod:`~simverify.symbolic.races`) are made of. A form is
a function of real numbers: a :class:`Machine` says what rounding makes of it.
"""

__simverify_role__ = "stand-in"


import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Functions of real numbers that forms are made of, with limits at their ends, and inverses.


INF = math.inf
# The real ones: while code is followed, math has others, which take draws and thrice the time.
_isfinite, _exp, _log = math.isfinite, math.exp, math.log
_floor, _ceil = math.floor, math.ceil


def safe_exp(x: float) -> float:
    """Return the exponential, infinite where a double cannot hold it."""
    return INF if x > 709 else _exp(x)


def safe_log(x: float) -> float:
    """Return the logarithm, minus infinity at 0 and below."""
    return -INF if x <= 0 else _log(x)


def safe_power(x: float, k: float) -> float:
    """Return ``x**k`` for x >= 0, which a number below 0 counts as."""
    if x <= 0:
        return 0.0 if k > 0 else INF
    try:
        return float(x**k)
    except OverflowError:
        return INF


def power_inverse(y: float, k: float) -> float:
    """Solve x**k = y for x >= 0; y at or below 0 is never reached."""
    if y != y:
        return y
    return safe_power(y, 1 / k)


def apply_operation(op: str, a: float, b: float, x: float) -> float:
    """Return what the operation of a form makes of ``x``."""
    if op == "affine":
        return a * x + b
    if op == "floor":
        return _floor(x) if _isfinite(x) else x
    if op == "exp":
        return safe_exp(x)
    return safe_log(x) if op == "log" else safe_power(x, a)


def invert_operation(op: str, a: float, b: float, c: float) -> tuple[float, bool]:
    """Return ``(x, increasing)``: the operation gives less than ``c`` below x, or above it."""
    if op == "affine":
        return (c - b) / a, a > 0
    if op == "exp":
        return safe_log(c), True
    if op == "log":
        return safe_exp(c), True
    if op == "floor":
        return _ceil(c), True
    return power_inverse(c, a), a > 0


def sample_point(op: str) -> float:
    """Return a value at which the direction of an operation may be asked."""
    return 0.5 if op != "affine" else 0.0


TINY_OFFSET = 2e-7
"""``log(u + eps)`` with eps up to this (float32's and a little) is read as ``log(u)``.

The race it enters is then off by at most eps in probability, which is added to the slack.
"""

_SAMPLE_POINTS = (2.0**-20, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 2.0**-20)
_SPREAD_STEP = 2.0**-24


class NotMonotone(Exception):
    """The operation leaves the monotone functions of one uniform."""


class Form:
    """One monotone function on (0, 1); ``slack`` bounds the probability it is wrong on."""

    __slots__ = ("a", "b", "flip", "inner", "kind", "op", "slack")

    def __init__(
        self,
        kind: str,
        a: float,
        b: float,
        flip: bool = False,
        inner: "Form | None" = None,
        op: str = "",
        slack: float = 0.0,
    ) -> None:
        self.kind = kind
        self.a = a
        self.b = b
        self.flip = flip
        self.inner = inner
        self.op = op
        self.slack = slack

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.kind, self.a, self.b, self.flip, self.inner, self.op

    def value(self, u: float) -> float:
        """Value at ``u`` in [0, 1], the ends as limits."""
        if self.kind == "u":
            return self.a * u + self.b
        if self.inner is not None:
            return apply_operation(self.op, self.a, self.b, self.inner.value(u))
        v = 1 - u if self.flip else u
        if self.kind == "up":
            return self.a * safe_power(v, self.b)
        e = INF if v <= 0 else -_log(v)
        if self.kind == "ea":
            return self.a * e + self.b
        if self.kind == "ep":
            return self.a * safe_power(e, self.b)
        return self.a * safe_log(e) + self.b

    def threshold(self, c: float) -> tuple[float, bool]:
        """Return ``(t, increasing)``: value(u) < c iff u < t (increasing) or u > t."""
        if self.kind == "u":
            return (c - self.b) / self.a, self.a > 0
        if self.inner is not None:
            bound, increasing = invert_operation(self.op, self.a, self.b, c)
            t, inner_increasing = self.inner.threshold(bound)
            return t, increasing == inner_increasing
        if self.kind == "up":
            v = power_inverse(c / self.a, self.b)
            increasing = (self.a > 0) == (self.b > 0)
            return (1 - v, not increasing) if self.flip else (v, increasing)
        if self.kind == "ea":
            e, increasing = (c - self.b) / self.a, self.a > 0
        elif self.kind == "ep":
            e = power_inverse(c / self.a, self.b)
            increasing = (self.a > 0) == (self.b > 0)
        else:
            e, increasing = safe_exp((c - self.b) / self.a), self.a > 0
        # E falls as u rises, unless it is the exponential of 1 - u.
        return (-math.expm1(-e), increasing) if self.flip else (safe_exp(-e), not increasing)

    def affine(self, scale: float, shift: float) -> "Form":
        """``scale * value + shift``."""
        if scale == 0 or not _isfinite(scale) or not _isfinite(shift):
            raise NotMonotone(f"{scale} * draw + {shift}")
        if scale == 1 and shift == 0:
            return self
        if self.kind in ("u", "ea", "le"):
            return self._like(self.kind, scale * self.a, scale * self.b + shift)
        if shift == 0 and self.kind in ("up", "ep"):
            return self._like(self.kind, scale * self.a, self.b)
        return self._wrap("affine", scale, shift)

    def log(self) -> "Form":
        """Natural logarithm; the value must be positive."""
        form = self.centred()
        if form.kind == "up" and form.a > 0:
            return form._like("ea", -form.b, _log(form.a))
        if form.kind == "ep" and form.a > 0:
            return form._like("le", form.b, _log(form.a))
        form._must_be_positive("log")
        return form._wrap("log", 0, 0)

    def exp(self) -> "Form":
        """Exponential."""
        if self.kind == "ea":
            return self._like("up", safe_exp(self.b), -self.a).plain()
        if self.kind == "le":
            return self._like("ep", safe_exp(self.b), self.a).plain()
        return self._wrap("exp", 0, 0)

    def power(self, k: float) -> "Form":
        """``value ** k``; the value must be positive, but for k = -1."""
        if k == 0 or not _isfinite(k):
            raise NotMonotone(f"draw ** {k}")
        form = self.centred()
        if form.kind in ("up", "ep") and (form.a > 0 or k == -1):
            return form._like(form.kind, form.a**k, form.b * k).plain()
        form._must_be_positive("power")
        return form._wrap("power", k, 0)

    def floor(self) -> "Form":
        """Largest integer not above the value."""
        return self._wrap("floor", 0, 0)

    def off_by(self, slack: float) -> "Form":
        """Return the same, wrong on that much more probability."""
        return Form(self.kind, self.a, self.b, self.flip, self.inner, self.op, self.slack + slack)

    def spread(self) -> float:
        """Largest probability that a relative change of the value moves, per unit of it."""
        a, b = self.a, self.b
        if self.kind == "u":
            return max(abs(b), abs(a + b)) / abs(a)
        if self.kind == "ea":
            return 0.37 + abs(b / a)
        if self.kind == "le":
            return 0.37 * (1 + abs(b / a))
        if self.kind in ("up", "ep"):
            return 1 / abs(b)
        return max(map(self.spread_at, _SAMPLE_POINTS))

    def spread_at(self, u: float) -> float:
        """Return the same for a change where the uniform is ``u``."""
        low, high = self.value(u), self.value(u + _SPREAD_STEP if u < 0.5 else u - _SPREAD_STEP)
        if not (_isfinite(low) and _isfinite(high)):
            return 0.0
        return abs(high) * _SPREAD_STEP / abs(high - low) if high != low else INF

    def is_whole(self) -> bool:
        """Whether all values are integers."""
        if self.op == "affine" and self.inner is not None:
            return self.a == int(self.a) and self.b == int(self.b) and self.inner.is_whole()
        return self.op == "floor"

    def has_steps(self) -> bool:
        """Whether single values have a probability: there is an integer part inside."""
        return self.op == "floor" or (self.inner is not None and self.inner.has_steps())

    def range(self, low: float, high: float) -> tuple[float, float]:
        """Smallest and largest value over u in [low, high]."""
        x, y = self.value(low), self.value(high)
        return (x, y) if x <= y else (y, x)

    def race(self) -> tuple[tuple[Any, ...], float, int]:
        """Read the value as g(E / rate): the family naming g, the rate, and g's direction.

        Two values of one family compare as their E / rate do (direction +1) or the other
        way round (-1).
        """
        if self.inner is not None:
            family, rate, sense = self.inner.race()
            rising = invert_operation(self.op, self.a, self.b, sample_point(self.op))[1]
            return ("g", self.op, self.a, self.b, family), rate, sense if rising else -sense
        sign = 1 if self.a > 0 else -1
        if self.kind == "u":
            return ("u", self.a, self.b), 1.0, -sign
        if self.kind == "up":
            up = 1 if self.b > 0 else -1
            return ("up", self.a, up), 1 / abs(self.b), -sign * up
        if self.kind == "ea" and self.b != 0:
            return ("ea", self.b, sign), 1 / abs(self.a), sign
        if self.kind == "le":
            return ("le", self.a), safe_exp(-self.b / self.a), sign
        k = self.b if self.kind == "ep" else 1.0
        up = 1 if k > 0 else -1
        return ("ep", k, sign), abs(self.a) ** (-1 / k), sign * up

    def _like(self, kind: str, a: float, b: float) -> "Form":
        if a == 0 or not _isfinite(a) or not _isfinite(b):
            raise NotMonotone(f"a draw scaled by {a} and shifted by {b}")
        return Form(kind, a, b, self.flip, None, "", self.slack)

    def _wrap(self, op: str, a: float, b: float) -> "Form":
        return Form("g", a, b, self.flip, self, op, self.slack)

    def plain(self) -> "Form":
        """Write first powers as the affine kinds."""
        if self.b != 1:
            return self
        if self.kind == "ep":
            return self._like("ea", self.a, 0.0)
        if self.flip:
            return Form("u", -self.a, self.a, slack=self.slack)
        return Form("u", self.a, 0.0, slack=self.slack)

    def centred(self) -> "Form":
        """Write a E or a v as powers, dropping an offset put there to avoid log(0)."""
        a, b = self.a, self.b
        if self.kind == "ea" and abs(b) <= TINY_OFFSET * abs(a):
            return Form("ep", a, 1.0, self.flip, slack=self.slack + abs(b / a))
        if self.kind == "u" and abs(b) <= TINY_OFFSET * abs(a):
            return Form("up", a, 1.0, slack=self.slack + abs(b / a))
        if self.kind == "u" and abs(a + b) <= TINY_OFFSET * abs(a):
            return Form("up", -a, 1.0, flip=True, slack=self.slack + abs((a + b) / a))
        return self

    def _must_be_positive(self, what: str) -> None:
        if min(self.value(0.0), self.value(1.0)) < 0:
            raise NotMonotone(f"{what} of a draw that may be negative")


IDENTITY_FORM = Form("u", 1.0, 0.0)


# The machine of a draw: the grid it starts on, and every operation after.
#
# A :class:`Form` is the function that was meant. The machine rounds, wraps and merges. So
# each draw also carries its machine: the real operations, to be done on real numbers of the real
# types. It answers three questions. Of which type is the value: that of a sample. May the form be
# trusted: ``blur`` counts the rounding on the way in units of what is allowed. And if not, for
# which points of the grid does a comparison hold: found by bisection, with the operations done
# again at each point. All of them are monotone in the machine's arithmetic.


NO_OPERAND: Any = object()
"""Stands for the other number of an operation that has one argument."""

DOUBLE_POINTS = 2**53
SINGLE_POINTS = 2**24
"""Uniforms of numpy, torch and ``random`` are multiples of one part in so many."""


class BFloat16(np.float32):
    """A number of torch's bfloat16, which numpy lacks; what is computed with it is float32."""


def to_bfloat16(x: Any) -> Any:
    """Return the nearest number, ties to even, as hardware does; of an array, one of float32."""
    if isinstance(x, np.ndarray) and x.ndim:
        singles = x.astype(np.float32)
        words = singles.view(np.uint32).astype(np.uint64)
        rounded = ((words + 0x7FFF + ((words >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
        return np.where(np.isfinite(singles), rounded.view(np.float32), singles)
    single = np.float32(x)
    if not np.isfinite(single):
        return BFloat16(single)
    bits = int(single.view(np.uint32))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return BFloat16(np.uint32(bits).view(np.float32))


DOUBLE_SLACK, SINGLE_SLACK = 2.0**-36, 2.0**-22
"""The probability that rounding may move where a comparison is that of real numbers."""

_ROUNDING_BLUR = {
    float: 2.0**-53 / DOUBLE_SLACK,
    np.float64: 2.0**-53 / DOUBLE_SLACK,
    np.float32: 2.0**-24 / SINGLE_SLACK,
    np.float16: float("inf"),
    BFloat16: float("inf"),
}
"""Half an ulp of each type in units of the probability that its rounding may move unnoticed.

Both stay well below what counts as rounding in a verdict, 1e-9 and 1e-6. 16 bits are never
taken for real numbers. Integers do not round.
"""

MAX_SMOOTH_BLUR = 1.0
"""Up to this blur a comparison with a number is that of the form; beyond, of the grid."""

MAX_RACE_BLUR = 4.0
"""Up to this blur, weighed by their rates, draws are compared with each other."""

MAX_CONTINUOUS_BLUR = 64.0
"""Beyond this blur a draw is a step function."""


class Machine:
    """One operation of the machine, and the machine before it.

    At the root ``op`` maps a point of the grid, an integer, to the number drawn. ``sample`` is
    the value at one point, of the type of all values.
    """

    __slots__ = ("before", "blur", "op", "other", "reverse", "sample")

    def __init__(
        self,
        before: "Machine | None",
        op: Callable[..., Any],
        sample: Any,
        blur: float,
        other: Any = NO_OPERAND,
        reverse: bool = False,
    ) -> None:
        self.before = before
        self.op = op
        self.sample = sample
        self.blur = blur
        self.other = other
        self.reverse = reverse

    def then(
        self, form: "Form", op: Callable[..., Any], other: Any = NO_OPERAND, reverse: bool = False
    ) -> "Machine":
        """Return the machine after ``op(x)``, ``op(x, other)`` or, reversed, ``op(other, x)``.

        ``form`` is what the result was meant to be. Raises what the operation raises of the sample.
        """
        if other is NO_OPERAND:
            sample = op(self.sample)
        else:
            sample = op(other, self.sample) if reverse else op(self.sample, other)
        ulps = _ROUNDING_BLUR.get(type(sample), 0.0)
        blur = self.blur + ulps * form.spread() if ulps else self.blur
        return Machine(self, op, sample, blur, other, reverse)

    def counts(self) -> bool:
        """Whether what was drawn is an integer."""
        root = self
        while root.before is not None:
            root = root.before
        return isinstance(root.sample, int | np.integer)

    def does_as(self, other: "Machine") -> bool:
        """Whether the same operations are done, on the same numbers."""
        x, y = self, other
        while x is not y:
            if x.before is None or y.before is None:
                return False
            alike = x.op is y.op and x.reverse == y.reverse
            if not (alike and (x.other is y.other or bool(np.all(x.other == y.other)))):
                return False
            x, y = x.before, y.before
        return True

    def apply(self, x: Any) -> Any:
        """Do this operation on a number."""
        if self.other is NO_OPERAND:
            return self.op(x)
        return self.op(self.other, x) if self.reverse else self.op(x, self.other)

    def values(self) -> Callable[[int], Any]:
        """Return what computes the value at a point of the grid."""
        steps: list[Machine] = []
        node = self
        while node.before is not None:
            steps.append(node)
            node = node.before
        steps.reverse()
        start = node.op
        if not steps:
            return start

        def value(point: int) -> Any:
            x = start(point)
            for step in steps:
                x = step.apply(x)
            return x

        return value


def grid_machine(op: Callable[[int], Any], points: int, blur: float = 0.0) -> Machine:
    """Return the root of uniforms that are ``op`` of one of ``points``; ``blur``: its rounding."""
    # Not 1/2, where differences and logarithms are special.
    return Machine(None, op, op(points * 4 // 7), blur)


def unit_machine(kind: Callable[[float], Any], points: int) -> Machine:
    """Return the root of uniforms of a type, which are multiples of one part in ``points``."""
    return grid_machine(lambda k: kind(k / points), points, 0.0)


PYTHON_UNIFORM = grid_machine(lambda k: k * 2.0**-53, DOUBLE_POINTS, 0.0)
"""Uniforms that are Python floats, as ``rng.random()``."""

DOUBLE_UNIFORM = grid_machine(lambda k: np.float64(k * 2.0**-53), DOUBLE_POINTS, 0.0)
"""Elements of an array of doubles."""

SINGLE_UNIFORM = grid_machine(lambda k: np.float32(k * 2.0**-24), SINGLE_POINTS, 0.0)
"""Elements of an array or tensor of float32."""

PYTHON_SINGLE_UNIFORM = grid_machine(lambda k: k * 2.0**-24, SINGLE_POINTS, 0.0)
"""Python floats with the bits of a float32, as ``rng.random(dtype=np.float32)``."""


@dataclass(frozen=True, slots=True)
class IntegerMap:
    """What maps a point to an integer out of ``low``..``low + count - 1``, of type ``kind``.

    Equal ones do the same, on whatever path they were made.
    """

    low: int
    count: int
    kind: Callable[[int], Any]

    def __call__(self, point: int) -> Any:
        """Return the integer at a point of the grid."""
        most = self.count <= DOUBLE_POINTS
        return self.kind(self.low + (point if most else point * self.count >> 53))


def integer_machine(low: int, count: int, kind: Callable[[int], Any]) -> Machine:
    """Return the root of an integer out of ``low``..``low + count - 1``, of type ``kind``."""
    draws = IntegerMap(low, count, kind)
    if count <= DOUBLE_POINTS:
        # Compared on the grid; where there are so many that no race can tell, raced too.
        return grid_machine(draws, count, 2.0 if count >= 2**31 else float("inf"))
    return grid_machine(draws, DOUBLE_POINTS, 0.0)


GUESS_RADIUS = 16
"""Points that the form of a draw may be off by where it says near which a value changes."""


def find_boundary(
    holds: Callable[[int], bool], first: int, last: int, guess: float = math.nan
) -> tuple[int, bool]:
    """Find where a monotone condition on the points ``first``..``last`` changes.

    Returns ``(point, before)``: it is ``before`` at all points below ``point``, the opposite from
    there on; ``point`` is ``last + 1`` if it never changes. ``guess``: near which to look first.
    """
    before = holds(first)
    if holds(last) == before:
        return last + 1, before
    low, high = first, last
    for point in (guess - GUESS_RADIUS, guess + GUESS_RADIUS):
        if low < point < high:
            low, high = (int(point), high) if holds(int(point)) == before else (low, int(point))
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle) == before:
            low = middle
        else:
            high = middle
    return high, before


def half_precision_uniform(
    kind: Callable[[Any], Any], points: int, low: float = 0.0, high: float = 1.0
) -> Machine:
    """Return the root of a uniform of 16 bits, on [low, high), from a grid of ``points``.

    It is computed in float32 and rounded, and what is rounded up to ``high`` becomes ``low``.
    These are the last points, which are put first: so the values rise.
    """
    width, start, end = np.float32(high - low), np.float32(low), kind(high)

    def rounded(k: Any) -> Any:
        return kind(np.float32(k / points) * width + start)

    wrapped = points - find_boundary(lambda k: bool(rounded(k) < end), 0, points - 1)[0]

    def value(k: Any) -> Any:
        if isinstance(k, np.ndarray):
            return np.where(k < wrapped, kind(low), rounded(np.maximum(k - wrapped, 0)))
        return kind(low) if k < wrapped else rounded(k - wrapped)

    return grid_machine(value, points, float("inf"))


# Limits of a draw's values: infinities, and points at which the machine raises.


OVERFLOW_ERRORS = (ValueError, ZeroDivisionError, OverflowError)
"""What functions of Python floats raise where numpy's give infinities, as at u = 0."""


def finite_span(value: Callable[[int], Any], first: int, last: int) -> "tuple[int, int] | None":
    """Return the points between which a monotone value is finite, both ends among them.

    None if no finite one was found. What raises where it overflows is not finite.
    """

    def is_finite(point: int) -> bool:
        try:
            x = value(point)
        except OVERFLOW_ERRORS:
            return False
        return isinstance(x, int) or bool(np.isfinite(x))

    middle = (first + last) // 2
    inside = next((point for point in (first, last, middle) if is_finite(point)), None)
    if inside is None:
        return None
    low, _ = find_boundary(is_finite, first, inside)
    high, _ = find_boundary(is_finite, inside, last)
    return first if low > inside else low, high - 1


def defined_span(value: Callable[[int], Any], first: int, last: int) -> tuple[int, int]:
    """Leave out an end at which the machine raises."""
    for step in (1, -1):
        point = first if step == 1 else last
        if first < last:
            try:
                value(point)
            except OVERFLOW_ERRORS:
                first, last = (first + 1, last) if step == 1 else (first, last - 1)
    return first, last


_LARGEST_BY_TYPE = {np.float16: 65504.0, np.float32: 3.4e38, BFloat16: 3.3e38}

_FLOAT_TYPES = (float, np.floating)

_MAX_EXPONENTIAL = 40.0
"""No exponential, nor the logarithm of one, is further from 0: no uniform is below 2^-54."""


def may_overflow(form: "Form", sample: Any) -> bool:
    """Whether a form may be infinite somewhere in the type of ``sample``, but for its ends."""
    if not isinstance(sample, _FLOAT_TYPES):
        return False
    try:
        return _largest_magnitude(form) > _LARGEST_BY_TYPE.get(type(sample), 1.7e308)
    except OverflowError:
        return True


def _largest_magnitude(form: "Form") -> float:
    """Return a number that no value is beyond, but at the ends."""
    a, b = abs(form.a), abs(form.b)
    if form.inner is None:
        if form.kind == "u":
            return a + b
        if form.kind in ("ea", "le"):
            return a * _MAX_EXPONENTIAL + b
        largest = _MAX_EXPONENTIAL if form.kind == "ep" else 1.0
        return float(a * (2.0 ** (54 * b) if form.b < 0 else max(1.0, largest**b)))
    reach = _largest_magnitude(form.inner)
    if form.op == "affine":
        return a * reach + b
    if form.op == "exp":
        return math.exp(reach)
    if form.op == "power":
        return reach**a if form.a > 0 else math.inf
    return max(reach, 750.0) + 1

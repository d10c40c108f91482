"""What the machine computes from a draw: the grid it starts on, and every operation after.

A form (:mod:`.forms`) is the function that was meant. The machine rounds, wraps and merges. So
each draw also carries its machine: the real operations, to be done on real numbers of the real
types. It answers three questions. Of which type is the value: that of a sample. May the form be
trusted: ``blur`` counts the rounding on the way in units of what is allowed. And if not, for
which points of the grid does a comparison hold: found by bisection, with the operations done
again at each point. All of them are monotone in the machine's arithmetic.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from simverify.symbolic.draws.values.forms import Form

NOTHING: Any = object()
"""Stands for the other number of an operation that has one argument."""

DOUBLE_POINTS = 2**53
SINGLE_POINTS = 2**24
"""Uniforms of numpy, torch and ``random`` are multiples of one part in so many."""


class BFloat16(np.float32):
    """A number of torch's bfloat16, which numpy lacks; what is computed with it is float32."""


def to_bfloat16(x: Any) -> BFloat16:
    """Return the nearest number, ties to even, as hardware does."""
    single = np.float32(x)
    if not np.isfinite(single):
        return BFloat16(single)
    bits = int(single.view(np.uint32))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return BFloat16(np.uint32(bits).view(np.float32))


DOUBLES_MOVE, SINGLES_MOVE = 2.0**-36, 2.0**-22
"""The probability that rounding may move where a comparison is that of real numbers."""

_ROUNDING = {
    float: 2.0**-53 / DOUBLES_MOVE,
    np.float64: 2.0**-53 / DOUBLES_MOVE,
    np.float32: 2.0**-24 / SINGLES_MOVE,
    np.float16: float("inf"),
    BFloat16: float("inf"),
}
"""Half an ulp of each type in units of the probability that its rounding may move unnoticed.

Both stay well below what counts as rounding in a verdict, 1e-9 and 1e-6. 16 bits are never
taken for real numbers. Integers do not round.
"""

SMOOTH = 1.0
"""Up to this blur a comparison with a number is that of the form; beyond, of the grid."""

RACES = 4.0
"""Up to this blur, weighed by their rates, draws are compared with each other."""

SWAMPED = 64.0
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
        other: Any = NOTHING,
        reverse: bool = False,
    ) -> None:
        self.before = before
        self.op = op
        self.sample = sample
        self.blur = blur
        self.other = other
        self.reverse = reverse

    def then(
        self, form: "Form", op: Callable[..., Any], other: Any = NOTHING, reverse: bool = False
    ) -> "Machine":
        """Return the machine after ``op(x)``, ``op(x, other)`` or, reversed, ``op(other, x)``.

        ``form`` is what the result was meant to be. Raises what the operation raises of the sample.
        """
        if other is NOTHING:
            sample = op(self.sample)
        else:
            sample = op(other, self.sample) if reverse else op(self.sample, other)
        ulps = _ROUNDING.get(type(sample), 0.0)
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
        if self.other is NOTHING:
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


def _root(op: Callable[[int], Any], points: int, blur: float) -> Machine:
    # Not 1/2, where differences and logarithms are special.
    return Machine(None, op, op(points * 4 // 7), blur)


PYTHON = _root(lambda k: k * 2.0**-53, DOUBLE_POINTS, 0.0)
"""Uniforms that are Python floats, as ``rng.random()``."""

DOUBLE = _root(lambda k: np.float64(k * 2.0**-53), DOUBLE_POINTS, 0.0)
"""Elements of an array of doubles."""

SINGLE = _root(lambda k: np.float32(k * 2.0**-24), SINGLE_POINTS, 0.0)
"""Elements of an array or tensor of float32."""

PYTHON_SINGLE = _root(lambda k: k * 2.0**-24, SINGLE_POINTS, 0.0)
"""Python floats with the bits of a float32, as ``rng.random(dtype=np.float32)``."""


@dataclass(frozen=True, slots=True)
class IntegerAt:
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


def integers_from(low: int, count: int, kind: Callable[[int], Any]) -> Machine:
    """Return the root of an integer out of ``low``..``low + count - 1``, of type ``kind``."""
    draws = IntegerAt(low, count, kind)
    if count <= DOUBLE_POINTS:
        # Compared on the grid; where there are so many that no race can tell, raced too.
        return _root(draws, count, 2.0 if count >= 2**31 else float("inf"))
    return _root(draws, DOUBLE_POINTS, 0.0)


CLOSE = 16
"""Points that the form of a draw may be off by where it says near which a value changes."""


def boundary(
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
    for point in (guess - CLOSE, guess + CLOSE):
        if low < point < high:
            low, high = (int(point), high) if holds(int(point)) == before else (low, int(point))
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle) == before:
            low = middle
        else:
            high = middle
    return high, before


def coarse_uniform(
    kind: Callable[[Any], Any], points: int, low: float = 0.0, high: float = 1.0
) -> Machine:
    """Return the root of a uniform of 16 bits, on [low, high), from a grid of ``points``.

    It is computed in float32 and rounded, and what is rounded up to ``high`` becomes ``low``.
    These are the last points, which are put first: so the values rise.
    """
    width, start, end = np.float32(high - low), np.float32(low), kind(high)

    def rounded(k: int) -> Any:
        return kind(np.float32(k / points) * width + start)

    wrapped = points - boundary(lambda k: bool(rounded(k) < end), 0, points - 1)[0]

    def value(k: int) -> Any:
        return kind(low) if k < wrapped else rounded(k - wrapped)

    return _root(value, points, float("inf"))

"""Integers that are exactly ``a n + b``, where ``n`` is the random integer that was drawn.

A form is made of floats, 2**62 integers have more digits, and types of so many bits wrap around.
So the operations of the machine are done again, on Python's integers, which do not wrap. What the
machine computes may differ from that by a multiple of the type's size: the path forks wherever
an operation wraps around, so that it is one multiple for all that is left of the draw.
"""

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simverify.symbolic.draws.values.ends import OVERFLOWS
from simverify.symbolic.draws.values.machine import NOTHING, Machine

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import Atom

_AFFINE = (
    operator.add, operator.sub, operator.mul, operator.lshift, operator.neg, operator.pos,
    operator.abs,
)  # fmt: skip
"""What leaves a line a line, ``abs`` where the sign is known."""


class Line(NamedTuple):
    """``a n + b`` for so many ``values`` of n in a row."""

    a: int
    b: int
    values: int


class Two(Machine):
    """One operation of the machine on two results that were computed from one draw.

    Its sample is of what is left of the draw: elsewhere one type may not hold the other's number.
    """

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


def is_whole(x: Any) -> bool:
    """Whether a number is an integer of Python's or of numpy's; no bool."""
    return isinstance(x, np.integer) or (isinstance(x, int) and not isinstance(x, bool))


def line_of(atom: "Atom", machine: Machine) -> Line | None:
    """Return the line that is computed from what is left of a draw; None where it is not known.

    More integers than points of the grid: all of them are meant, and a point is the first of as
    many as come before the next.
    """
    root = _drawn(machine)
    if root is None or not atom.single or atom.owner is not None:
        return None
    first, last = atom.span()
    try:
        low, high = int(root.op(first)), int(root.op(last))
        value = machine.values()
        here, there = int(value(first)), int(value(last))
        start, end = _exact(machine, low), _exact(machine, high)
        a = _exact(machine, low + 1) - start
        whole = int(root.op(atom.points - 1)) - int(root.op(0)) + 1
    except (*OVERFLOWS, _NotAffine):
        return None
    if end - start != a * (high - low) or there - here != end - start:
        return None
    whole += (whole - 1) >> 53
    return Line(a, here - a * low, math.floor(whole * (atom.high - atom.low)))


class _NotAffine(Exception):
    """An operation leaves the lines, or the integers."""


def _drawn(machine: Machine) -> Machine | None:
    """Return the random integer that all is computed from."""
    while True:
        if isinstance(machine, Two):
            machine = machine.first
        elif machine.before is not None:
            machine = machine.before
        else:
            return machine if is_whole(machine.sample) else None


def _exact(machine: Machine, n: int) -> int:
    """Return what the machine computes from n where nothing wraps around."""
    steps = []
    while machine.before is not None:
        steps.append(machine)
        machine = machine.before
    if isinstance(machine, Two):
        n = _done(machine.with_both, _exact(machine.first, n), _exact(machine.second, n))
    for step in reversed(steps):
        if not is_whole(step.sample):
            raise _NotAffine
        if passes(step.op):
            continue
        if step.other is NOTHING:
            n = _done(step.op, n)
        elif is_whole(step.other):
            other = int(step.other)
            n = _done(step.op, other, n) if step.reverse else _done(step.op, n, other)
        else:
            raise _NotAffine
    return n


def _done(op: Callable[..., Any], *numbers: int) -> int:
    if op not in _AFFINE:
        raise _NotAffine
    return int(op(*numbers))


def passes(op: Any) -> bool:
    """Whether an operation only makes another type of the same integer."""
    return isinstance(op, type) or getattr(op, "__name__", "") == "_item"

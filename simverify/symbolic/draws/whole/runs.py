"""Runs of points of a grid at which a draw has one value, found by bisection."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.values.machine import (
    CLOSE,
    DOUBLE,
    NOTHING,
    PYTHON,
    PYTHON_SINGLE,
    SINGLE,
    IntegerAt,
    Machine,
)

_GRIDS = {machine.op for machine in (PYTHON, DOUBLE, SINGLE, PYTHON_SINGLE)}

_FOUND: dict[tuple[Any, int, int], list[tuple[int, Any]] | None] = {}  # the last 64


def _name_of(machine: Machine) -> tuple[Any, ...] | None:
    """Return what is equal for machines that do the same to uniforms alone; None: not known."""
    name: list[Any] = []
    while machine.before is not None:
        kind = type(machine.other)
        if machine.other is not NOTHING and not issubclass(kind, int | float | np.generic):
            return None
        # A zero has a sign, and equal numbers of two types give others.
        name.append((machine.op, kind, repr(machine.other), machine.reverse))
        machine = machine.before
    root = machine.op
    # Of integers the type is remembered, not what a caller made to count them.
    known = isinstance(root.kind, type) if isinstance(root, IntegerAt) else root in _GRIDS
    return (*name, root) if known else None


def runs_of(
    machine: Machine,
    value: Callable[[int], Any],
    first: int,
    last: int,
    most: int,
    guess: Callable[[Any, Any], float],
) -> "list[tuple[int, Any]] | None":
    """Return the :func:`changes` of what a machine computes; the same ones come on each path."""
    name = _name_of(machine)
    if name is None:
        return changes(value, first, last, most, guess)
    if (name, first, last) not in _FOUND:
        while len(_FOUND) >= 64:
            del _FOUND[next(iter(_FOUND))]
        _FOUND[name, first, last] = changes(value, first, last, most, guess)
    return _FOUND[name, first, last]


def exactly(op: Callable[..., Any], x: Any, *others: Any) -> int:
    """Return what an operation gives where nothing wraps around."""
    if isinstance(op, type):
        return int(x)
    return int(op(int(x), *(int(y) for y in others)))


_FAR = 1024
"""So many points are worth a guess."""


def changes(
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
        if guess is not None and high_point - low_point > _FAR:
            point = guess(low, high)
            if low_point < point - CLOSE and point + CLOSE < high_point:
                middles = [int(point) + CLOSE, int(point) - CLOSE]
        for middle in middles:
            between = value(middle)
            left.append((middle, between, high_point, high))
            high_point, high = middle, between
        left.append((low_point, low, high_point, high))
    return runs

"""Triton's operators on blocks."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import (
    NUMBERS,
    Block,
    beside_known,
    elementwise,
    extended,
    operands,
)
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Constant, Line
from simverify.engines.tiles.types import FLOAT, WHOLE, Dtype, float32, int1

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1}
"""With which number an operation changes nothing."""

_NONE = np.zeros(0, np.bool_)

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _binary(name: str, function: Callable[..., Any], *, compares: bool = False) -> tuple[Any, Any]:
    """Return an operator of a block and an operand, and the one whose operands are exchanged."""

    # Kernels are mostly arithmetic on scalars, so that the ways of those are short.
    def apply(a: Block, b: Any) -> Any:
        if type(b) is Block:
            x, y, kind = (a, b, a.dtype) if a.dtype is b.dtype else operands(a, b)
        elif (known := beside_known(b, a)) is not None:
            x, y, kind = a, known, a.dtype
        elif not isinstance(b, NUMBERS) and hasattr(b, "is_pointer"):
            return NotImplemented
        else:
            x, y, kind = operands(a, b)
        if x.rest is None and y.rest is None:
            return Block(function(x.data, y.data), int1 if compares else kind)
        return of_rows(x, y, kind)

    def exchanged(b: Block, a: Any) -> Any:
        if (known := beside_known(a, b)) is not None:
            x, y, kind = known, b, b.dtype
        else:
            x, y, kind = operands(a, b)
        if y.rest is None and x.rest is None:
            return Block(function(x.data, y.data), int1 if compares else kind)
        return of_rows(x, y, kind)

    def of_rows(x: Block, y: Block, kind: Dtype) -> Block:
        result = int1 if compares else kind
        if (made := _ending_alike(function, result, x, y)) is not None:
            return made
        line, number = (x, y) if isinstance(x.rest, Line) else (y, x)
        if isinstance(line.rest, Line):
            if compares:
                return _compared(
                    _SWAPPED[name] if line is y else name, line, number, function, x, y
                )
            whole = None if kind.is_floating() else _whole(number)
            if whole is not None:
                moved = _moved(name, function, x, y, line, whole, kind)
                if moved is not None:
                    return moved
        return elementwise(function, result, x, y)

    return apply, exchanged


def _ending_alike(function: Callable[..., Any], kind: Dtype, x: Block, y: Block) -> Block | None:
    """Return the result where each is a number, or a row of so many elements and then one number.

    None for others: this is what :func:`elementwise` gives, sooner.
    """
    one, other = x.rest, y.rest
    known = len(y.data if one is None else x.data)
    if one is None:
        if isinstance(x.data, np.ndarray):
            return None
    elif type(one) is not Constant:
        return None
    if other is None:
        if isinstance(y.data, np.ndarray):
            return None
    elif type(other) is not Constant or len(y.data) != known:
        return None
    last = function(
        x.data if one is None else one.value,
        y.data if other is None else other.value,
    )
    head = function(x.data, y.data) if known else np.zeros(0, kind.kind)
    return Block(head, kind, Constant(last), x.count or y.count)


def _whole(block: Block) -> int | None:
    """Return the number of a scalar, or of a block that is one number; None if it is no such."""
    data = block.data
    if isinstance(block.rest, Constant) and not len(data):
        data = block.rest.value
    elif not block.is_scalar:
        return None
    return int(data) if issubclass(type(data), np.integer) else None


def _moved(
    name: str, function: Any, x: Block, y: Block, line: Block, whole: int, kind: Dtype
) -> Block | None:
    """Return a line after an operation with a number, if it is a line still and does not wrap."""
    assert isinstance(line.rest, Line)
    if whole == _NEUTRAL.get(name) and (name != "sub" or line is x):
        return line
    ends = line.rest.moved(name, whole, first=line is x)
    fits = None if ends is None else Line(*ends, kind.kind).fits(kind.kind, line.count)
    if fits is None:
        return None
    known = len(line.data)
    head = function(x.first(known), y.first(known)) if known else line.data
    return Block(head, kind, fits, line.count)


def _compared(name: str, line: Block, number: Block, function: Any, x: Block, y: Block) -> Block:
    """Compare a line with a number: from some element on there is one answer."""
    assert isinstance(line.rest, Line)
    value = _whole(number)
    if value is None:
        return elementwise(function, int1, x, y)
    place = line.rest.cut(name, value, len(line.data), line.count)
    if place is None:
        return elementwise(function, int1, x, y)
    # A line that rises: below the place it is smaller, and from it on it is not.
    answer = name in ("ge", "gt", "ne")
    if len(line.data) or name in ("eq", "ne"):
        x, y = (extended(z, place) if z is line else z for z in (x, y))
        head = function(x.first(place), y.first(place)) if place else _NONE
    else:
        head = np.full(place, not answer)
    if place == line.count:
        return Block(head, int1)
    return Block(head, int1, Constant(np.bool_(answer)), line.count)


def toward_zero(x: Any, y: Any) -> Any:
    """Return ``x // y`` of integers as C does it."""
    # Triton divides integers as C does. By zero the result is undefined; here it is numpy's.
    if type(x) in WHOLE and x >= 0 and y > 0:
        return x // y
    return (x - np.fmod(x, y)) // y


def remainder(x: Any, y: Any) -> Any:
    """Return ``x % y`` of integers as C does it."""
    if type(x) in WHOLE and x >= 0 and y > 0:
        return x % y
    return np.fmod(x, y)


def _truediv(a: Any, b: Any) -> Any:
    x, y, kind = operands(a, b, divides=True)
    if not kind.is_floating():
        x, y, kind = x.to(float32), y.to(float32), float32
    return elementwise(operator.truediv, kind, x, y)


def _floordiv(a: Any, b: Any) -> Any:
    x, y, kind = operands(a, b, divides=True)
    if kind.is_floating():
        refuse("// of floats, which Triton refuses too")
    return elementwise(toward_zero, kind, x, y)


def _mod(a: Any, b: Any) -> Any:
    x, y, kind = operands(a, b, divides=True)
    return elementwise(remainder, kind, x, y)


def _bits(name: str, function: Callable[..., Any]) -> tuple[Any, Any]:
    def whole(apply: Callable[[Block, Any], Any]) -> Callable[[Block, Any], Any]:
        def bitwise(a: Block, b: Any) -> Any:
            other = b.dtype.rank == FLOAT if type(b) is Block else isinstance(b, float)
            if other or a.dtype.rank == FLOAT:
                refuse(f"`{name}` of floats, which Triton refuses too")
            return apply(a, b)

        return bitwise

    apply, exchanged = _binary(name, function)
    return whole(apply), whole(exchanged)


def _either(function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    return function, lambda self, other: function(other, self)


def _install(name: str, both: tuple[Any, Any]) -> None:
    function, exchanged = both
    setattr(Block, f"__{name}__", function)
    setattr(Block, f"__r{name}__", exchanged)


for _name in COMPARISONS:
    setattr(Block, f"__{_name}__", _binary(_name, getattr(operator, _name), compares=True)[0])
for _name in ("add", "sub", "mul"):
    _install(_name, _binary(_name, getattr(operator, _name)))
for _name, _function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
    _install(_name, _bits(_name, _function))
for _name in ("lshift", "rshift"):
    _install(_name, _bits(_name, getattr(operator, _name)))
for _name, _function in (("truediv", _truediv), ("floordiv", _floordiv), ("mod", _mod)):
    _install(_name, _either(_function))

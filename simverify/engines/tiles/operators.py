"""Triton's operators on blocks."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import NUMBERS, Block, elementwise, extended, operands
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Constant, Line
from simverify.engines.tiles.types import Dtype, float32, int1

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _binary(name: str, function: Callable[..., Any], *, compares: bool = False) -> Any:
    """Return an operator on two operands, of which one at least is a block."""

    def apply(a: Any, b: Any) -> Any:
        if type(a) is Block and type(b) is Block and a.dtype is b.dtype:
            x, y, kind = a, b, a.dtype
        elif type(b) is not Block and not isinstance(b, NUMBERS) and hasattr(b, "is_pointer"):
            return NotImplemented
        else:
            x, y, kind = operands(a, b)
        result = int1 if compares else kind
        if x.rest is None and y.rest is None:
            return Block(function(x.data, y.data), result)
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

    return apply


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
    line_is_first = line is x
    x, y = (extended(z, place) if z is line else z for z in (x, y))
    head = np.zeros(0, np.bool_)
    if place:
        head = function(x.first(place), y.first(place))
    if place == line.count:
        return Block(head, int1)
    last = line.rest.between(line.count - 1, line.count)
    answer = (function(last, value) if line_is_first else function(value, last))[0]
    return Block(head, int1, Constant(np.bool_(answer)), line.count)


def _toward_zero(x: Any, y: Any) -> Any:
    # Triton divides integers as C does. By zero the result is undefined; here it is numpy's.
    return (x - np.fmod(x, y)) // y


def _truediv(a: Any, b: Any) -> Any:
    x, y, kind = operands(a, b, divides=True)
    if not kind.is_floating():
        x, y, kind = x.to(float32), y.to(float32), float32
    return elementwise(operator.truediv, kind, x, y)


def _floordiv(a: Any, b: Any) -> Any:
    x, y, kind = operands(a, b, divides=True)
    if kind.is_floating():
        refuse("// of floats, which Triton refuses too")
    return elementwise(_toward_zero, kind, x, y)


def _mod(a: Any, b: Any) -> Any:
    x, y, kind = operands(a, b, divides=True)
    return elementwise(np.fmod, kind, x, y)


def _bits(name: str, function: Callable[..., Any]) -> Any:
    apply = _binary(name, function)

    def bitwise(a: Any, b: Any) -> Any:
        for x in (a, b):
            if isinstance(x, float) or (isinstance(x, Block) and x.dtype.is_floating()):
                refuse(f"`{name}` of floats, which Triton refuses too")
        return apply(a, b)

    return bitwise


def _install(name: str, function: Callable[[Any, Any], Any]) -> None:
    setattr(Block, f"__{name}__", function)
    setattr(Block, f"__r{name}__", lambda self, other: function(other, self))


for _name in COMPARISONS:
    setattr(Block, f"__{_name}__", _binary(_name, getattr(operator, _name), compares=True))
for _name in ("add", "sub", "mul"):
    _install(_name, _binary(_name, getattr(operator, _name)))
for _name, _function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
    _install(_name, _bits(_name, _function))
for _name in ("lshift", "rshift"):
    _install(_name, _bits(_name, getattr(operator, _name)))
_install("truediv", _truediv)
_install("floordiv", _floordiv)
_install("mod", _mod)

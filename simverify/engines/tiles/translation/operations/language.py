"""Functions of ``tl`` in translated kernels, by those that run where a kernel is not translated."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.engines.tiles.language import FEW, MATH, power_of_two, tl
from simverify.engines.tiles.translation.operations import access
from simverify.engines.tiles.translation.operations.arithmetic import alike, binary, chosen, is_zero
from simverify.engines.tiles.translation.operations.cipher import philox, uniform
from simverify.engines.tiles.translation.operations.conversions import (
    converted,
    type_of,
)
from simverify.engines.tiles.translation.operations.lines import plain
from simverify.engines.tiles.translation.operations.reductions import extreme, running, total
from simverify.engines.tiles.translation.operations.rows import (
    cast,
    constant,
    every,
    full,
    known_whole,
    of_shape,
    shape_of,
    typed,
)
from simverify.engines.tiles.translation.values import (
    NOTHING,
    Array,
    Known,
    Row,
    Scalar,
    Several,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import float32, int32

Handler = Callable[..., Value]


def _arange(w: Writer, start: Value, end: Value) -> Value:
    first = known_whole(start)
    count = known_whole(end) - first
    if count <= 0 or count & (count - 1):
        raise Untranslatable("an arange of no power of two")
    return plain(w, str(first), "1", int32, count)


def _sides(shape: tuple[Value, ...]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], Several):
        shape = shape[0].items
    if len(shape) == 1 and isinstance(shape[0], Known) and isinstance(shape[0].value, tuple | list):
        return tuple(int(x) for x in shape[0].value)
    return tuple(map(known_whole, shape))


def _broadcast_to(w: Writer, x: Value, *shape: Value) -> Value:
    block, sides = typed(w, x), _sides(shape)
    if shape_of(block) == sides:
        return block
    if isinstance(block, Scalar) and len(sides) == 1:
        (count,) = sides
        length = count if count <= FEW else 1
        return Row(w.named_once(f"full({length}, {block.code})"), block.dtype, count, str(length))
    return Array(w.named_once(f"broadcast_to({full(w, block)}, {sides})"), block.dtype, sides)


def _full(w: Writer, shape: Value, value: Value, dtype: Value) -> Value:
    return _broadcast_to(w, cast(w, typed(w, value), type_of(dtype)), shape)


def _zeros(w: Writer, shape: Value, dtype: Value) -> Value:
    return _full(w, shape, constant(w, 0, int32), dtype)


def _of_two(name: str, sign: str) -> Handler:
    def apply(w: Writer, x: Value, y: Value, propagate_nan: Value = NOTHING) -> Value:
        one, other, kind = alike(w, typed(w, x), typed(w, y))
        if isinstance(one, Scalar) and isinstance(other, Scalar):
            a, b = one.code, other.code
            code = f"{a} if {a} {sign} {b} else {b} if {b} {sign} {a} else {name}({a}, {b})"
            return Scalar(w.named_once(code), kind)
        return every(w, lambda a, b: f"{name}({a}, {b})", kind, one, other)

    return apply


def _of_one(name: str) -> Handler:
    def apply(w: Writer, x: Value) -> Value:
        block = typed(w, x)
        if not block.dtype.is_floating() or block.dtype.bits < float32.bits:
            raise Untranslatable(f"{name} of a block {block.dtype}")
        return every(w, lambda a: f"{name}({a})", block.dtype, block)

    return apply


def _abs(w: Writer, x: Value) -> Value:
    block = typed(w, x)
    return every(w, lambda a: f"abs({a})", block.dtype, block)


def _expanded(w: Writer, x: Value, axis: Value) -> Value:
    block = typed(w, x)
    if isinstance(block, Scalar):
        raise Untranslatable("an axis of a scalar")
    place = known_whole(axis)
    shape = np.expand_dims(np.empty(shape_of(block)), place).shape
    return of_shape(w.named_once(f"expand_dims({full(w, block)}, {place})"), block.dtype, shape)


def _cdiv(w: Writer, x: Value, y: Value) -> Value:
    return binary(w, "//", binary(w, "+", x, binary(w, "-", y, Known(1))), y)


def _program(code: str) -> Handler:
    def apply(w: Writer, axis: Value) -> Value:
        return Scalar(f"{code}{known_whole(axis)}", int32)

    return apply


def _load(
    w: Writer, pointer: Value, mask: Value = NOTHING, other: Value = NOTHING, **hints: Value
) -> Value:
    access.hints_iv(hints)
    return access.load(w, pointer, mask, other)


def _store(w: Writer, pointer: Value, value: Value, mask: Value = NOTHING, **hints: Value) -> Value:
    access.hints_iv(hints)
    access.store(w, pointer, value, mask)
    return NOTHING


def _nothing(w: Writer, *values: Value, **named: Value) -> Value:
    return NOTHING


def _same(w: Writer, x: Value, *hints: Value) -> Value:
    return x


def _asserted(w: Writer, condition: Value, *more: Value, **named: Value) -> Value:
    if isinstance(condition, Known) and condition.value:
        return NOTHING
    raise Untranslatable("an assertion that is not known to hold")


_LARGEST, _SMALLEST = extreme("fmax", "argmax"), extreme("fmin", "argmin")

METHODS: dict[str, Handler] = {
    "to": converted, "sum": total, "cumsum": running, "max": _LARGEST[0], "min": _SMALLEST[0],
    "argmax": _LARGEST[1], "argmin": _SMALLEST[1],
    "exp": _of_one("exp"), "log": _of_one("log"), "abs": _abs,
    "logical_not": lambda w, x: is_zero(w, typed(w, x)),
}  # fmt: skip
"""Methods of blocks, by their names."""

BY_NAME: dict[str, Handler] = {
    **{name: x for name, x in METHODS.items() if name not in ("to", "logical_not")},
    **{name: _of_one(name) for name in ("exp2", "log2", "sqrt", "floor", "ceil")},
    "load": _load, "store": _store, "program_id": _program("p"), "num_programs": _program("g"),
    "rand": uniform(1, float32), "rand4x": uniform(4, float32),
    "randint": uniform(1, int32), "randint4x": uniform(4, int32), "philox": philox,
    "arange": _arange, "full": _full, "zeros": _zeros, "broadcast_to": _broadcast_to,
    "where": chosen, "minimum": _of_two("fmin", "<"), "maximum": _of_two("fmax", ">"),
    "cdiv": _cdiv, "cast": converted, "expand_dims": _expanded,
    "debug_barrier": _nothing, "static_print": _nothing, "device_print": _nothing,
    "assume": _nothing, "static_assert": _asserted, "device_assert": _asserted,
    "multiple_of": _same, "max_contiguous": _same,
}  # fmt: skip

HANDLERS: dict[Any, Handler] = {
    **{vars(tl)[name]: handler for name, handler in BY_NAME.items()},
    **{vars(MATH)[name]: _of_one(name) for name in ("log1p", "expm1", "exp", "log", "sqrt")},
    vars(MATH)["fast_expf"]: _of_one("exp"),
    vars(MATH)["fast_logf"]: _of_one("log"),
    vars(MATH)["abs"]: _abs,
    vars(MATH)["isnan"]: lambda w, x: binary(w, "!=", x, x),
}
"""What is written for a call, by the function that is called where a kernel is not translated."""

PURE = frozenset({vars(tl)["cdiv"], power_of_two, min, max, abs, len, int, float, bool})
"""Functions that are called while a kernel is translated, where all they are given is known."""

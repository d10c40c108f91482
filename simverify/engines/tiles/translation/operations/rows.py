"""Code of blocks: in another type, of so many elements, and of what is done to each element."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.engines.tiles import blocks
from simverify.engines.tiles.language import FEW
from simverify.engines.tiles.translation.operations.lines import plain
from simverify.engines.tiles.translation.values import (
    Array,
    Block,
    Known,
    Lazy,
    Prefix,
    Row,
    Rows,
    Scalar,
    Untranslatable,
    Value,
    is_number,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype, dtype_of, int1


def constant(w: Writer, value: Any, dtype: Dtype) -> Scalar:
    """Return a known number in a type."""
    number = blocks.constant(value or 0, dtype).data  # as in Triton a zero has no sign
    return Scalar(w.constant(number, (dtype.name, number.tobytes())), dtype, value)


def typed(w: Writer, value: Value) -> Block:
    """Return a block; a known number has its own type."""
    if is_number(value):
        assert isinstance(value, Known)
        return constant(w, value.value, dtype_of(value.value))
    if isinstance(value, Scalar | Array | Rows):
        return value
    raise Untranslatable(f"a {type(value).__name__} where a block is expected")


def count_of(x: Value) -> int | None:
    """Return how many elements a row has; None for what is no row."""
    return x.count if isinstance(x, Rows) else None


def shape_of(x: Block) -> tuple[int, ...]:
    """Return the shape of a block; () of a scalar."""
    if isinstance(x, Array):
        return x.shape
    return (x.count,) if isinstance(x, Rows) else ()


def at(w: Writer, x: Block, length: str) -> str:
    """Return code of the first ``length`` elements of a row; of another block that itself."""
    if isinstance(x, Row):
        if x.length == length:
            return x.code
        return w.named_once(f"stretched({x.code}, {length})")
    if isinstance(x, Prefix):
        if x.length == length:
            return w.named_once(f"until({x.length}, {x.kept})")
        return w.named_once(f"stretched({at(w, x, x.length)}, {length})")
    if isinstance(x, Lazy):
        return str(w.once((x, length), lambda: x.make(length)))
    return x.code


def full(w: Writer, x: Block) -> str:
    """Return code of all elements."""
    return at(w, x, str(count_of(x)))


def as_row(w: Writer, x: Rows) -> Row:
    """Return a row as an array and what stands for the rest."""
    if isinstance(x, Row):
        return x
    if isinstance(x, Prefix):
        return Row(at(w, x, x.length), x.dtype, x.count, x.length)
    return Row(full(w, x), x.dtype, x.count, str(x.count))


def longest(w: Writer, *lengths: str) -> str:
    """Return the longest of some lengths."""
    found = sorted(set(lengths))
    return found[0] if len(found) == 1 else w.named_once(f"max({', '.join(found)})", "m")


def every(w: Writer, make: Callable[..., str], dtype: Dtype, *given: Block) -> Block:
    """Return what is done to every element; blocks are spread as numpy's arrays are.

    ``make(*codes)`` is code of the result, for scalars as for arrays.
    """
    if any(isinstance(x, Array) for x in given):
        try:
            shape = np.broadcast_shapes(*map(shape_of, given))
        except ValueError:
            raise Untranslatable("blocks of other shapes") from None
        return Array(w.named_once(make(*[full(w, x) for x in given])), dtype, shape)
    counts = {x.count for x in given if isinstance(x, Rows)}
    if not counts:
        return Scalar(w.named_once(make(*[x.code for x in given if isinstance(x, Scalar)])), dtype)
    if len(counts) > 1:
        raise Untranslatable("rows of other lengths")
    (count,) = counts
    if any(isinstance(x, Lazy) for x in given) and count > FEW:
        return Lazy(dtype, count, lambda n: w.named_once(make(*[at(w, x, n) for x in given])))
    length = str(count)
    if not any(isinstance(x, Lazy) for x in given):
        length = longest(w, *[x.length for x in given if isinstance(x, Row | Prefix)])
    return Row(w.named_once(make(*[at(w, x, length) for x in given])), dtype, count, length)


def cast(w: Writer, x: Block, dtype: Dtype) -> Block:
    """Return a block in another type."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Scalar) and x.known is not None and _holds(x.known, dtype):
        return constant(w, x.known, dtype)
    if dtype is int1:
        return every(w, lambda a: f"{a} != 0", int1, x)
    if isinstance(x, Lazy) and x.line is not None and _wider(x.dtype, dtype):
        return plain(w, *x.line, dtype, x.count)
    kind = w.constant(dtype.kind, dtype.name)
    return every(w, lambda a: f"{a}.astype({kind})", dtype, x)


def _wider(one: Dtype, other: Dtype) -> bool:
    """Whether a type of signed integers holds all numbers of another."""
    return not other.is_floating() and one.signed and other.signed and other.bits >= one.bits


def _holds(value: Any, dtype: Dtype) -> bool:
    """Whether a whole number is one of a type of integers."""
    if not isinstance(value, int) or dtype.is_floating() or dtype is int1:
        return False
    ends = np.iinfo(dtype.kind)
    return bool(ends.min <= value <= ends.max)


def whole(w: Writer, x: Value) -> str:
    """Return code of a scalar as a whole number of Python's."""
    if is_number(x):
        assert isinstance(x, Known)
        return str(int(x.value))
    if not isinstance(x, Scalar) or x.dtype.is_floating():
        raise Untranslatable("a block or a float where a whole number is needed")
    if isinstance(x.known, int):
        return str(int(x.known))
    return w.named_once(f"int({x.code})", "i")


def known_whole(x: Value) -> int:
    """Return a whole number that is known."""
    value = x.value if isinstance(x, Known) else x.known if isinstance(x, Scalar) else None
    if not isinstance(value, int):
        raise Untranslatable("a size that is not known")
    return int(value)


def of_shape(code: str, dtype: Dtype, shape: tuple[int, ...]) -> Block:
    """Return a block all of whose elements are in an array."""
    if len(shape) == 1:
        return Row(code, dtype, shape[0], str(shape[0]))
    return Array(code, dtype, shape) if shape else Scalar(code, dtype)

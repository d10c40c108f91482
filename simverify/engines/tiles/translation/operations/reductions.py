"""Sums, extremes and running sums of translated kernels."""

from collections.abc import Callable

from simverify.engines.tiles.reductions import sums_in
from simverify.engines.tiles.translation.operations.conversions import is_exactly, type_of
from simverify.engines.tiles.translation.operations.rows import (
    as_row,
    cast,
    known_whole,
    of_shape,
    typed,
)
from simverify.engines.tiles.translation.values import (
    NO,
    NOTHING,
    YES,
    Array,
    Block,
    Known,
    Row,
    Rows,
    Scalar,
    Several,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype, float32, int32

Handler = Callable[..., Value]
FIRST = Known(0)


def total(w: Writer, x: Value, axis: Value = NOTHING, **more: Value) -> Value:
    """Return a sum: ``tl.sum``."""
    dtype = more.pop("dtype", NOTHING)
    block = typed(w, x)
    kind = sums_in(block.dtype) if is_exactly(dtype, None) else type_of(dtype)
    block = cast(w, block, kind)
    if isinstance(block, Scalar):
        return block
    name = w.constant(kind.kind, kind.name)
    if isinstance(block, Rows):
        _axis_iv(axis, 1, more)
        row = as_row(w, block)
        if row.length == str(row.count):
            return Scalar(w.named_once(f"add.reduce({row.code}, dtype={name})"), kind)
        return Scalar(w.named_once(f"total({row.code}, {row.count}, {name})"), kind)
    return _reduced(w, f"add.reduce({{}}, axis={{}}, dtype={name})", block, kind, axis, more)


def _axis_iv(axis: Value, dims: int, more: dict[str, Value]) -> int | None:
    """Return the axis of a reduction. Refuses one that is not there, and other options."""
    if any(not is_exactly(x, False) for x in more.values()):
        raise Untranslatable("options of a reduction")
    if is_exactly(axis, None):
        return None
    place = known_whole(axis)
    if not -dims <= place < dims:
        raise Untranslatable("an axis that is not there")
    return place % dims


def _reduced(
    w: Writer, code: str, x: Array, kind: Dtype, axis: Value, more: dict[str, Value]
) -> Value:
    place = _axis_iv(axis, len(x.shape), more)
    name = w.named_once(code.format(x.code, place))
    if place is None:
        return Scalar(name, kind)
    return of_shape(name, kind, x.shape[:place] + x.shape[place + 1 :])


def _wide(w: Writer, x: Value) -> Block:
    block = typed(w, x)
    if block.dtype.is_floating():
        return cast(w, block, float32) if block.dtype.bits < float32.bits else block
    return cast(w, block, int32) if block.dtype.bits < int32.bits else block


def extreme(name: str, of_place: str) -> tuple[Handler, Handler]:
    """Return what writes ``tl.max`` or ``tl.min``, and the place of it."""

    def value(
        w: Writer, x: Value, axis: Value = NOTHING, return_indices: Value = NO,
        return_indices_tie_break_left: Value = YES, **more: Value,
    ) -> Value:  # fmt: skip
        block = _wide(w, x)
        if not isinstance(return_indices, Known):
            raise Untranslatable("return_indices that is not known")
        if return_indices.value:
            if not isinstance(block, Rows) or is_exactly(axis, None):
                raise Untranslatable("places of extremes of other blocks")
            where = place(w, block, axis, return_indices_tie_break_left, **more)
            row = as_row(w, block)
            assert isinstance(where, Scalar)
            found = w.named_once(f"{row.code}[{where.code}]")
            return Several((Scalar(found, block.dtype), where))
        if isinstance(block, Scalar):
            return block
        if isinstance(block, Rows):
            _axis_iv(axis, 1, more)
            return Scalar(w.named_once(f"{name}.reduce({as_row(w, block).code})"), block.dtype)
        code = f"{name}.reduce({{}}, axis={{}})"
        return _reduced(w, code, block, block.dtype, axis, more)

    def place(
        w: Writer, x: Value, axis: Value, tie_break_left: Value = YES, **more: Value
    ) -> Value:
        block = _wide(w, x)
        if not isinstance(block, Rows) or not isinstance(tie_break_left, Known):
            raise Untranslatable("places of extremes of other blocks")
        _axis_iv(axis, 1, more)
        if not tie_break_left.value or is_exactly(axis, None):
            raise Untranslatable("which of equal elements comes out")
        code = f"first_of({as_row(w, block).code}, {of_place!r})"
        return Scalar(w.named_once(code), int32)

    return value, place


def running(w: Writer, x: Value, axis: Value = FIRST, **more: Value) -> Value:
    """Return running sums: ``tl.cumsum``."""
    dtype = more.pop("dtype", NOTHING)
    block = typed(w, x)
    block = cast(w, block, sums_in(block.dtype) if is_exactly(dtype, None) else type_of(dtype))
    if not isinstance(block, Rows):
        raise Untranslatable("running sums of other blocks")
    _axis_iv(axis, 1, more)
    row = as_row(w, block)
    code = w.named_once(f"running({row.code}, {row.count})")
    length = str(row.count) if row.length == str(row.count) else w.named_once(f"len({code})", "m")
    return Row(code, row.dtype, row.count, length)

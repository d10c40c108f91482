"""Loads and stores of translated kernels."""

from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import block_of
from simverify.engines.tiles.translation.operations.rows import (
    as_row,
    at,
    cast,
    constant,
    full,
    longest,
    shape_of,
    typed,
)
from simverify.engines.tiles.translation.values import (
    Array,
    Block,
    Known,
    Lazy,
    Place,
    Prefix,
    Row,
    Rows,
    Scalar,
    Tensor,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import int1

HINTS = ("cache_modifier", "eviction_policy", "volatile")


def hints_iv(hints: dict[str, Value]) -> None:
    """Refuse hints that may change a result."""
    for name, value in hints.items():
        empty = isinstance(value, Known) and value.value in (None, "", ())
        if name not in HINTS and not empty:
            raise Untranslatable(f"a load or store with {name}")


def load(w: Writer, place: Value, mask: Value, other: Value) -> Block:
    """Return what lies at a place where the mask holds, and ``other`` elsewhere."""
    if not isinstance(place, Place):
        raise Untranslatable("a load from no pointer")
    gate = _gate(w, mask)
    filling = _filling(w, place, other)
    if place.index is None:
        if isinstance(gate, Known) and not gate.value:
            return _one(filling)
        if not isinstance(gate, Known | Scalar):
            raise Untranslatable("one place and a mask of many")
        return _load_one(w, place, gate, filling)
    if isinstance(place.index, Rows) and not isinstance(gate, Array):
        return _load_row(w, place, place.index, gate, filling)
    return _load_array(w, place, gate, filling)


def _one(filling: Block) -> Scalar:
    if not isinstance(filling, Scalar):
        raise Untranslatable("one place that a block fills")
    return filling


def _gate(w: Writer, mask: Value) -> Known | Block:
    if isinstance(mask, Known):
        return Known(True if mask.value is None else bool(mask.value))
    return cast(w, typed(w, mask), int1)


def _filling(w: Writer, place: Place, other: Value) -> Block:
    kind = place.memory.dtype
    if isinstance(other, Known) and other.value is None:
        worst = np.nan if kind.is_floating() else 0 if kind is int1 else np.iinfo(kind.kind).min
        return constant(w, worst, kind)
    if isinstance(other, Known):
        # As a block of its own type first.
        return constant(w, block_of(other.value).to(kind).data, kind)
    return cast(w, typed(w, other), kind)


def _held(memory: Tensor, offset: str) -> str:
    size = memory.size
    return f"if not 0 <= {offset} < {size}: beside({memory.name!r}, {offset}, {size})"


def _load_one(w: Writer, place: Place, gate: Known | Scalar, filling: Block) -> Scalar:
    memory, offset = place.memory, place.offset
    if isinstance(gate, Known):
        w.emit(_held(memory, offset))
        return Scalar(w.name(f"{memory.code}[{offset}]"), memory.dtype)
    name = w.name(_one(filling).code)
    with w.captured() as body:
        w.emit(_held(memory, offset))
        w.emit(f"{name} = {memory.code}[{offset}]")
    w.put(f"if {gate.code}", body)
    return Scalar(name, memory.dtype)


def _kept(w: Writer, gate: Known | Block, count: int) -> tuple[str, str] | None:
    """Return how many of the first lanes are let in, and the length of the row."""
    if isinstance(gate, Prefix):
        if gate.count != count:
            raise Untranslatable("a mask of another length")
        return gate.kept, gate.length
    if isinstance(gate, Known):
        return (str(count), str(count)) if gate.value else ("0", str(count))
    if isinstance(gate, Scalar):
        return w.named_once(f"{count} if {gate.code} else 0", "k"), str(count)
    return None


def _load_row(w: Writer, place: Place, index: Any, gate: Any, filling: Block) -> Block:
    memory, count = place.memory, index.count
    name = repr(memory.name)
    kept = _kept(w, gate, count)
    plain = isinstance(filling, Scalar)
    if kept is not None and (plain or isinstance(filling, Row | Prefix)):
        length = kept[1]
        if not plain:
            length = longest(w, length, as_row(w, filling).length)  # type: ignore[arg-type]
        other = at(w, filling, length)
        if isinstance(index, Lazy) and index.line is not None:
            start, step = index.line
            start = start if place.offset == "0" else f"{place.offset} + {start}"
            code = f"loaded({name}, {memory.code}, {start}, {step}, {kept[0]}, {length}, {other})"
        else:
            places = _places(w, place, at(w, index, length))
            code = f"picked({name}, {memory.code}, {places}, {kept[0]}, {length}, {other})"
        return Row(w.name(code), memory.dtype, count, length)
    if kept is not None or isinstance(gate, Lazy) or isinstance(filling, Lazy):
        length, door = str(count), _door(w, gate, count)
    else:
        held = as_row(w, gate)
        door = w.named_once(f"closed({held.code}, {count})")
        length = w.named_once(f"len({door})", "m")
        if isinstance(filling, Row | Prefix):
            length = longest(w, length, as_row(w, filling).length)
            door = w.named_once(f"stretched({door}, {length})")
    places = _places(w, place, at(w, index, length))
    other = at(w, filling, length)
    code = f"gathered({name}, {memory.code}, {places}, {door}, {other})"
    return Row(w.name(code), memory.dtype, count, length)


def _door(w: Writer, gate: Any, count: int) -> str:
    if isinstance(gate, Rows):
        return full(w, gate)
    value = str(bool(gate.value)) if isinstance(gate, Known) else gate.code
    return w.named_once(f"full({count}, {value})")


def _places(w: Writer, place: Place, code: str) -> str:
    return code if place.offset == "0" else f"{code} + {place.offset}"


def _load_array(w: Writer, place: Place, gate: Any, filling: Block) -> Array:
    index: Any = place.index
    places = _places(w, place, full(w, index))
    name = repr(place.memory.name)
    shape = shape_of(index)
    if isinstance(gate, Known) and gate.value:
        code = f"taken({name}, {place.memory.code}, {places})"
        return Array(w.name(code), place.memory.dtype, shape)
    if isinstance(gate, Known):
        raise Untranslatable("a load that nothing is let in to")
    door = gate.code if isinstance(gate, Scalar) else full(w, gate)
    if isinstance(gate, Scalar):
        door = w.named_once(f"full({shape}, {door})")
    else:
        shape = _spread(shape, shape_of(gate))
    if _spread(shape, shape_of(filling)) != shape:
        raise Untranslatable("what fills a block has another shape")
    code = f"gathered({name}, {place.memory.code}, {places}, {door}, {full(w, filling)})"
    return Array(w.name(code), place.memory.dtype, shape)


def _spread(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise Untranslatable("blocks of other shapes") from None


def store(w: Writer, place: Value, value: Value, mask: Value) -> None:
    """Write a value to a place where the mask holds."""
    if not isinstance(place, Place):
        raise Untranslatable("a store to no pointer")
    memory, gate = place.memory, _gate(w, mask)
    block = cast(w, typed(w, value), memory.dtype)
    if isinstance(gate, Known) and not gate.value:
        return
    if place.index is None:
        if not isinstance(block, Scalar) or not isinstance(gate, Known | Scalar):
            raise Untranslatable("a block stored at one place")
        _store_one(w, place, gate, block)
        return
    w.stores += 1
    if isinstance(place.index, Rows) and isinstance(block, Scalar | Rows):
        _store_row(w, place, place.index, gate, block)
    else:
        _store_array(w, place, gate, block)


def _store_one(w: Writer, place: Place, gate: Known | Scalar, block: Scalar) -> None:
    memory, offset = place.memory, place.offset
    if isinstance(gate, Scalar):
        with w.captured() as body:
            _store_one(w, place, Known(True), block)
        w.put(f"if {gate.code}", body)
        return
    w.emit(_held(memory, offset))
    w.stored(memory.code, offset)
    w.emit(f"{memory.code}[{offset}] = {block.code}")


def _store_row(w: Writer, place: Place, index: Any, gate: Any, block: Any) -> None:
    memory, count = place.memory, index.count
    if isinstance(block, Rows) and block.count != count:
        raise Untranslatable("rows of other lengths")
    name = repr(memory.name)
    kept = _kept(w, gate, count)
    if kept is not None:
        values = block.code if isinstance(block, Scalar) else at(w, block, kept[1])
        if isinstance(index, Lazy) and index.line is not None:
            start, step = index.line
            start = start if place.offset == "0" else f"{place.offset} + {start}"
            w.emit(f"put({name}, {memory.code}, {start}, {step}, {kept[0]}, {values}, _undo)")
        else:
            places = _places(w, place, f"{at(w, index, kept[1])}[:{kept[0]}]")
            w.emit(f"put_at({name}, {memory.code}, {places}, {values}, _undo)")
        return
    if isinstance(gate, Lazy):
        door, length = full(w, gate), str(count)
    elif isinstance(gate, Rows):
        door = w.named_once(f"closed({as_row(w, gate).code}, {count})")
        length = w.named_once(f"len({door})", "m")
    else:
        raise Untranslatable("a row stored where a block lets in")
    places = _places(w, place, at(w, index, length))
    values = at(w, block, length)
    w.emit(f"put_where({name}, {memory.code}, {places}, {door}, {values}, _undo)")


def _store_array(w: Writer, place: Place, gate: Any, block: Block) -> None:
    index: Any = place.index
    shape = shape_of(index)
    values = full(w, block)
    if not isinstance(block, Scalar) and _spread(shape_of(block), shape) != shape:
        raise Untranslatable("a block stored at fewer places")
    if isinstance(gate, Known):
        door = w.named_once(f"full({shape}, True)")
    elif isinstance(gate, Scalar):
        door = w.named_once(f"full({shape}, {gate.code})")
    else:
        door = full(w, gate)
        _spread(shape, shape_of(gate))  # or there is no plan
    places = _places(w, place, full(w, index))
    name = repr(place.memory.name)
    w.emit(f"put_where({name}, {place.memory.code}, {places}, {door}, {values}, _undo)")

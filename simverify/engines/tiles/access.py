"""What a kernel loads and stores: lanes of a block that a mask lets in, and what fills the others.

Lanes that a mask leaves out and for which no ``other`` is given hold anything at all on a GPU;
here NaN, or the smallest integer, so that a kernel which uses them is seen to.
"""

import functools
from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import Block, block_of, joined
from simverify.engines.tiles.memory import Memory, Pointer
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Constant, Line, is_number
from simverify.engines.tiles.types import Dtype, int1
from simverify.symbolic.draws.in_arrays.arrays import draw_array, is_symbolic


def load(pointer: Any, mask: Any = None, other: Any = None, **hints: Any) -> Block:
    """Return what lies at the places where ``mask`` holds, and ``other`` elsewhere.

    ``hints`` to the compiler (eviction and cache) change no result; a padding is refused.
    """
    if hints:
        _hints_iv(hints)
    if type(pointer) is not Pointer:
        refuse(f"a load from a {type(pointer).__name__}, which is no pointer")
    memory = pointer.memory
    kind = memory.dtype
    if pointer.index is None and (mask is None or _is_one(pointer, mask)):
        if mask is not None and not bool(mask):
            return _filling(other, kind)
        if not 0 <= pointer.base < memory.size:
            memory.beside(pointer.base)
        elements = memory.elements if memory.known is None else memory.known
        return Block(elements[pointer.base], kind)
    if type(mask) is Block and (row := _row(pointer, mask)) is not None:
        return _filled(row, _filling(other, kind), kind, mask.count)
    places, kept, count = _lanes(pointer, mask)
    filling = _filling(other, kind)
    head = _taken(memory, places, kept, filling)
    return Block(head, kind) if count is None else _filled(head, filling, kind, count)


def store(pointer: Any, value: Any, mask: Any = None, **hints: Any) -> None:
    """Write ``value`` to the places where ``mask`` holds."""
    if hints:
        _hints_iv(hints)
    if type(pointer) is not Pointer:
        refuse(f"a store to a {type(pointer).__name__}, which is no pointer")
    memory, kind = pointer.memory, pointer.memory.dtype
    block = block_of(value)
    block = block if block.dtype is kind else block.to(kind)
    if block.is_scalar and _is_one(pointer, mask):
        if mask is not None and not bool(mask):
            return
        if not 0 <= pointer.base < memory.size:
            memory.beside(pointer.base)
        _written(memory, pointer.base, block.data)
        return
    if pointer.index is None:
        refuse("a block stored at one place")
    places, kept, count = _lanes(pointer, mask)
    values = block.whole() if count is None else block.first(len(places))
    if isinstance(values, np.ndarray) and values.shape != places.shape:
        values = np.broadcast_to(values, places.shape)
    if kept is not None:
        places = places[kept]
        values = values[kept] if isinstance(values, np.ndarray) else values
    _inside_iv(memory, places)
    _written(memory, places, values)


def _is_one(pointer: Pointer, mask: Any) -> bool:
    """Whether one place is meant, and not a block of them."""
    return pointer.index is None and (type(mask) is not Block or mask.is_scalar)


def _hints_iv(hints: dict[str, Any]) -> None:
    unknown = set(hints) - {"cache_modifier", "eviction_policy", "volatile"}
    if any(hints[name] not in (None, "", ()) for name in unknown):
        refuse(f"a load or store with {', '.join(sorted(unknown))}")


def _row(pointer: Pointer, gate: Block) -> Any:
    """Return what lies side by side in the first lanes, where a mask lets in those alone.

    None where that is not so; most loads of a row are such, and take no places to be written out.
    """
    index, ends = pointer.index, gate.rest
    if (
        index is None
        or type(index.rest) is not Line
        or type(ends) is not Constant
        or len(index.data)
    ):
        return None
    count = len(gate.data)
    if index.rest.step != 1 or ends.value or index.count != gate.count or not gate.data.all():
        return None
    first, elements = pointer.base + index.rest.start, pointer.memory.elements
    if not 0 <= first <= first + count <= len(elements) or elements.dtype == object:
        return None
    return elements[first : first + count].copy()


def _lanes(pointer: Pointer, mask: Any) -> tuple[Any, Any, int | None]:
    """Return the places of the lanes, which of them are kept (None: all), and how many lanes.

    Of a row whose mask ends, the lanes up to that end; the number is None where all are there.
    """
    index = pointer.index
    gate = None if mask is None else block_of(mask).to(int1)
    if index is None:
        assert gate is not None
        return np.broadcast_to(pointer.base, gate.shape), gate.whole(), None
    ends = gate is not None and isinstance(gate.rest, Constant) and not gate.rest.value
    row = index.rest is not None or (not index.is_scalar and index.data.ndim == 1)
    if gate is not None and ends and row:
        known = len(gate.data)
        return pointer.base + index.first(known), gate.data, gate.count
    places = pointer.base + index.whole()
    if gate is None:
        return places, None, None
    kept = gate.whole()
    if type(places) is np.ndarray is type(kept) and places.shape == kept.shape:
        return places, kept, None
    shape = np.broadcast_shapes(np.shape(places), np.shape(kept))
    return np.broadcast_to(places, shape), np.broadcast_to(kept, shape), None


def _taken(memory: Memory, places: Any, kept: Any, filling: Block) -> Any:
    if kept is None or kept.all():
        _inside_iv(memory, places)
        return _picked(memory.elements, places)
    _inside_iv(memory, places[kept])
    others = filling.data if filling.is_scalar else filling.first(len(kept))
    if not kept.any():
        return np.array(np.broadcast_to(others, kept.shape))
    return np.where(kept, _picked(memory.elements, np.where(kept, places, 0)), others)


def _picked(elements: Any, places: Any) -> Any:
    picked = elements[places]
    return picked if picked.dtype != object else draw_array(picked.ravel().tolist(), picked.shape)


def _filled(head: Any, filling: Block, kind: Dtype, count: int) -> Block:
    """Return a row of ``count`` lanes whose first are ``head``, and the others those of another."""
    if filling.is_scalar:
        return Block(head, kind, Constant(filling.data), count)
    return Block(joined(head, filling.data[len(head) :]), kind, filling.rest, count)


def _inside_iv(memory: Memory, places: Any) -> None:
    if places.size and (places.min() < 0 or places.max() >= memory.size):
        outside = places[(places < 0) | (places >= memory.size)]
        memory.beside(outside.ravel()[0])


def _written(memory: Memory, places: Any, values: Any) -> None:
    elements = memory.elements
    draws = not is_number(values) and is_symbolic(values)
    if draws and elements.dtype != object:
        elements = memory.hold_draws()
    elements[places] = values.view(np.ndarray) if isinstance(values, np.ndarray) else values


def _filling(other: Any, kind: Dtype) -> Block:
    """Return what stands where nothing is loaded, in the memory's type."""
    if other is not None:
        if type(other) is float or type(other) is int:
            return _number(other, type(other).__name__, kind, kind.numpy_name)
        return block_of(other).to(kind)
    worst = np.nan if kind.is_floating() else 0 if kind is int1 else np.iinfo(kind.kind).min
    return Block(kind.kind(worst), kind)


@functools.lru_cache(maxsize=4096)
def _number(value: Any, sort: str, kind: Dtype, name: str) -> Block:
    return block_of(value).to(kind)

"""The memory of a tensor, pointers into it, and what a kernel loads and stores.

A pointer that a kernel makes stays inside the tensor that it was given, or the access is an
error: on a GPU it would read whatever lies there. Lanes that a mask leaves out and for which no
``other`` is given hold anything at all on a GPU; here NaN, or the smallest integer, so that a
kernel which uses them is seen to.
"""

import sys
from typing import Any, NoReturn

import numpy as np

from simverify.engines.tiles.blocks import Block, block_of
from simverify.engines.tiles.refusals import OutOfBounds, kernel_line, refuse
from simverify.engines.tiles.rests import Constant, Line, is_number
from simverify.engines.tiles.types import FLOAT, OF_NUMPY, WHOLE, Dtype, int1, int64
from simverify.symbolic.addressed import followed
from simverify.symbolic.draws.in_arrays.arrays import draw_array, is_symbolic

ARGUMENT_CALLS = 6
"""A tensor that a kernel is launched with counts as so many calls of torch, for what is done."""


class Memory:
    """The elements of a torch tensor from its first to its last, as the strides lay them out."""

    def __init__(self, tensor: Any, name: str) -> None:
        source = followed()
        if source is not None:
            source.torch_calls += ARGUMENT_CALLS
            # Every launch asks every tensor, and torch would tell of each time.
            with _torch()._C.DisableTorchFunction():
                dtype, shape, strides = tensor.dtype, tensor.shape, tensor.stride()
        else:
            dtype, shape, strides = tensor.dtype, tensor.shape, tensor.stride()
        kind = _OF_TORCH.get(dtype)
        self.name, self.dtype = name, _known(dtype, name) if kind is None else kind
        self._tensor = tensor
        self.known: Any = None
        size = 1
        for side, step in zip(shape, strides, strict=True):
            size += (side - 1) * step
        self.size = 0 if 0 in shape else size

    @property
    def elements(self) -> Any:
        """The elements, which are written to the tensor too; objects where draws are among them."""
        if self.known is None:
            source = followed()
            if source is not None and source.tensors is not None:
                self.known = source.tensors.memory(self._tensor, self.size)
            if self.known is None:
                self.known = _numbers(self._tensor, self.size)
        return self.known

    def hold_draws(self) -> Any:
        """Return the elements as objects, which may be draws."""
        if self.elements.dtype != object:
            source = followed()
            assert source is not None
            self.known = source.tensors.memory(self._tensor, self.size, make=True)
        return self.known

    def beside(self, place: Any) -> NoReturn:
        """Raise: an access outside the tensor."""
        raise OutOfBounds(
            f"{self.name}[{int(place)}] of {self.size} elements is loaded or stored without a "
            f"mask ({kernel_line()})"
        )


_OF_TORCH: dict[Any, Dtype] = {}
"""Types by those of torch, as they were found before."""


def _known(dtype: Any, name: str) -> Dtype:
    kind = str(dtype).removeprefix("torch.")
    if kind not in OF_NUMPY:
        refuse(f"argument {name} of type {kind}: known are {', '.join(OF_NUMPY)}")
    return _OF_TORCH.setdefault(dtype, OF_NUMPY[kind])


def _torch() -> Any:
    """Return the module that the tensor comes from."""
    return sys.modules["torch"]


def _numbers(tensor: Any, size: int) -> Any:
    """Return numpy's view of the memory."""
    if followed() is None and tensor.is_contiguous():
        return tensor.detach().numpy().reshape(-1)
    with _torch()._C.DisableTorchFunction():
        plain = tensor.detach()
        return plain.as_strided((size,), (1,), plain.storage_offset()).numpy()


class ElementType:
    """What a pointer points to: ``ptr.dtype.element_ty``."""

    def __init__(self, kind: Dtype) -> None:
        self.element_ty = kind

    def is_ptr(self) -> bool:
        """Whether it is a pointer's type."""
        return True


class Pointer:
    """A place in a memory, or a block of places: ``base``, and a block ``index`` on it."""

    __slots__ = ("base", "index", "memory")
    is_pointer = True

    def __init__(self, memory: Memory, base: int = 0, index: Block | None = None) -> None:
        self.memory, self.base, self.index = memory, base, index

    @property
    def dtype(self) -> ElementType:
        """The type of the pointer."""
        return ElementType(self.memory.dtype)

    def __add__(self, other: Any) -> "Pointer":
        if type(other) is Block:
            if type(other.data) in WHOLE:
                return Pointer(self.memory, self.base + int(other.data), self.index)
        elif type(other) is int:
            return Pointer(self.memory, self.base + other, self.index)
        if type(other) is not Block or other.dtype.rank == FLOAT:
            refuse("a pointer and what is no whole number")
        if other.rest is None and not isinstance(other.data, np.ndarray):
            return Pointer(self.memory, self.base + int(other.data), self.index)
        wide = other.to(int64)
        index: Block = wide if self.index is None else self.index + wide
        return Pointer(self.memory, self.base, index)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Pointer":
        return self.__add__(-other)

    def to(self, dtype: Any, *, bitcast: bool = False) -> NoReturn:
        """Refuse: memory is read as the type that it has."""
        refuse("a pointer read as another type")


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
    if mask is not None and (row := _row(pointer, block_of(mask))) is not None:
        filling = _filling(other, kind)
        return Block(row, kind, Constant(filling.data), pointer.index.count)
    places, kept, count = _lanes(pointer, mask)
    filling = _filling(other, kind)
    head = _taken(memory, places, kept, filling)
    if count is None:
        return Block(head, kind)
    rest = Constant(filling.data) if filling.rest is None else filling.rest
    return Block(head, kind, rest, count)


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
    if isinstance(values, np.ndarray):
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
        return block_of(other).to(kind)
    worst = np.nan if kind.is_floating() else 0 if kind is int1 else np.iinfo(kind.kind).min
    return Block(kind.kind(worst), kind)

"""The memory of a tensor, and pointers into it.

A pointer that a kernel makes stays inside the tensor that it was given, or the access is an
error: on a GPU it would read whatever lies there.
"""

import sys
from typing import Any, NoReturn

import numpy as np

from simverify.engines.tiles.blocks import Block
from simverify.engines.tiles.refusals import OutOfBounds, kernel_line, refuse
from simverify.engines.tiles.types import FLOAT, OF_NUMPY, WHOLE, Dtype, int64
from simverify.symbolic.addressed import followed

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
        plain = tensor.detach() if tensor.requires_grad else tensor
        return plain.numpy().reshape(-1)
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
        elif isinstance(other, int):
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

"""Tensors with symbolic elements.

A tensor that holds draws is an ordinary tensor filled with NaN whose storage has a shadow:
an object array with the draws. The shadow belongs to the storage, not to the tensor, so
views see what is written through other views. Tensors of integers hold winners of races, in
the same way, and whole draws.
"""

import operator
from typing import Any

import numpy as np
import torch

from simverify.symbolic.draws.in_arrays.arrays import (
    DrawArray,
    draw_array,
    is_symbolic,
    of_objects,
    settle,
)
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.several.winners import Winner, decided
from simverify.symbolic.draws.values.machine import BFloat16, to_bfloat16
from simverify.symbolic.enumeration.source import Source

Elements = np.ndarray[Any, Any]
_KINDS: dict[torch.dtype, Any] = {
    **{getattr(torch, name): getattr(np, name) for name in (
        "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16",
        "uint32", "uint64",
    )},
    torch.bool: np.bool_,
    torch.bfloat16: BFloat16,
}  # fmt: skip
_PLAIN = {int, float, bool, str, type(None), torch.dtype, torch.device, slice}


class Shadows:
    """The shadows of one path, by address of the storage (kept alive here)."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._of: dict[int, tuple[torch.Tensor, Elements]] = {}

    def clear(self) -> None:
        """Forget all shadows: a new path begins."""
        self._of.clear()

    def __bool__(self) -> bool:
        return bool(self._of)

    def elements(self, tensor: torch.Tensor) -> Elements | None:
        """Return the object view of a tensor's elements, or None if it has no shadow."""
        entry = self._entry(tensor)
        if entry is None:
            return None
        base, objects = entry
        if base.element_size() != tensor.element_size():
            raise TypeError("the bits of a random tensor read as another type")
        return _view(objects, tensor)

    def _entry(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Elements] | None:
        if not self._of or tensor.layout is not torch.strided:
            return None
        return self._of.get(tensor.untyped_storage().data_ptr())

    def is_symbolic(self, x: Any) -> bool:
        """Whether an argument is or contains a draw or a shadowed tensor with one."""
        kind = type(x)
        if kind in _PLAIN:
            return False
        if kind is torch.Tensor or isinstance(x, torch.Tensor):
            # Even if only numbers are left in it: the tensor itself holds NaN.
            return self._entry(x) is not None
        if isinstance(x, list | tuple):
            return self.among(x)
        return is_symbolic(x)

    def among(self, values: Any) -> bool:
        """Whether one of some arguments is symbolic; a loop, because every call asks it."""
        of = self._of
        for x in values:
            kind = type(x)
            if kind is torch.Tensor:
                if of and x.layout is torch.strided and x.untyped_storage().data_ptr() in of:
                    return True
            elif kind not in _PLAIN and self.is_symbolic(x):
                return True
        return False

    def numbers(self, x: Any) -> Any:
        """Read an argument as numpy: objects where it is symbolic, numbers where not."""
        if not isinstance(x, torch.Tensor):
            return x
        elements = self.elements(x)
        if elements is not None:
            return elements
        self._source.meet(x.dtype)
        return as_numpy(x)

    def tensor(self, values: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Return a tensor with these elements, shadowed if any is a draw."""
        if not is_symbolic(values):
            plain = settle(values) if isinstance(values, np.ndarray) else values
            return torch.as_tensor(np.asarray(plain)).to(dtype=dtype, device=device)
        if not may_hold_winners(dtype):
            if dtype is torch.bool:
                raise TypeError(f"draws in a tensor of {dtype}")
            values = decided(values)
            if not is_symbolic(values):
                return self.tensor(values, dtype, device)
        shape = values.shape if isinstance(values, np.ndarray) else ()
        result = torch.full(shape, _blank(dtype), dtype=dtype, device=device)
        # It is new: nothing else sees its storage, and nothing has to be read from it.
        cast = of_objects([element_of(x, dtype) for x in _flat(values)])
        self._of[result.data_ptr()] = (result, cast)
        return result

    def write(self, tensor: torch.Tensor, values: Any) -> None:
        """Put elements, numbers or draws, into a tensor in place."""
        if 0 in tensor.stride() and np.ndim(values):
            # Where several elements are one number, torch takes one number for all or raises.
            tensor.detach().copy_(tensor.detach().clone())
        if not may_hold_winners(tensor.dtype):
            values = decided(values)
        elements = self.elements(tensor)
        if elements is None:
            if not is_symbolic(values):
                plain = settle(values) if isinstance(values, np.ndarray) else values
                tensor.copy_(torch.as_tensor(np.asarray(plain)))
                return
            elements = self.make(tensor, read=False)
        kind = tensor.dtype
        cast = of_objects([element_of(x, kind) for x in _flat(values)])
        elements[...] = cast.reshape(values.shape if isinstance(values, np.ndarray) else ())

    def shared(
        self, data: Any, dtype: torch.dtype | None, device: Any, *, copy: bool | None = None
    ) -> torch.Tensor | None:
        """Return a tensor in the memory of another or of an array, as torch does; None for a copy.

        Each sees what the other is given.
        """
        if copy:
            return None
        if isinstance(data, torch.Tensor):
            return data.to(dtype=dtype or data.dtype, device=device or data.device)
        if type(data) is not DrawArray:
            return None
        kind = next((own for own, numpys in _KINDS.items() if numpys is data.dtype.type), None)
        objects = data.view(np.ndarray)
        here = torch.device(device or "cpu").type == "cpu"
        if kind is None or dtype not in (None, kind) or not (here and objects.flags.c_contiguous):
            return None
        result = torch.full(objects.shape, _blank(kind), dtype=kind)
        self._of[result.data_ptr()] = (result, objects.reshape(-1))
        return result

    def make(self, tensor: torch.Tensor, *, read: bool = True) -> Elements:
        """Give a tensor a shadow, in which its numbers are so far.

        ``read``: whether its own are asked for; else they are about to be replaced.
        """
        if not (tensor.is_floating_point() or may_hold_winners(tensor.dtype)):
            raise TypeError(f"draws in a tensor of {tensor.dtype}")
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        objects = np.empty(count, dtype=object)
        if count and (read or count != tensor.numel()):
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
            objects[:] = list(as_numpy(whole.reshape(-1)[:count]))
        self._of[storage.data_ptr()] = (tensor, objects)
        # Numbers that nobody can take for the elements'.
        tensor.detach().fill_(_blank(tensor.dtype))
        return _view(objects, tensor)

    def memory(self, tensor: torch.Tensor, size: int, *, make: bool = False) -> Elements | None:
        """Return ``size`` elements from a tensor's first on, as they lie in memory, as objects.

        None if it has no shadow; ``make``: it is given one. For code that follows pointers.
        """
        with torch._C.DisableTorchFunction():
            if self._entry(tensor) is None:
                self._source.meet(tensor.dtype)
                if not make:
                    return None
                self.make(tensor)
            first = tensor.storage_offset()
            entry = self._entry(tensor)
            assert entry is not None
            return entry[1][first : first + size]

    def decide(self, x: Any, *, draws: bool = False) -> Any:
        """Return an argument with the winners in it read: a tensor as a plain copy.

        ``draws``: its whole draws too, as an index needs it.
        """
        if isinstance(x, list | tuple) and any(map(self.is_symbolic, x)):
            return type(x)(self.decide(y, draws=draws) for y in x)
        if not isinstance(x, torch.Tensor):
            return decided(x)
        elements = self.elements(x)
        if elements is None or x.is_floating_point():
            return x
        flat = [decided(y) for y in elements.ravel().tolist()]
        if draws:
            flat = [operator.index(y) for y in flat]
        elements.flat[:] = flat
        if any(isinstance(y, Draw) for y in flat):
            return x
        return torch.tensor(flat, dtype=x.dtype, device=x.device).reshape(x.shape)


def may_hold_winners(dtype: torch.dtype) -> bool:
    """Whether it is a type of integers, which holds whole draws too."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def _blank(dtype: torch.dtype) -> float | int:
    return torch.iinfo(dtype).min if may_hold_winners(dtype) else torch.nan


def _view(objects: Elements, tensor: torch.Tensor) -> Elements:
    step = objects.itemsize
    shape, offset = tuple(tensor.shape), tensor.storage_offset()
    if tensor.is_contiguous():
        return objects[offset : offset + tensor.numel()].reshape(shape)
    strides = tuple(s * step for s in tensor.stride())
    return np.lib.stride_tricks.as_strided(objects[offset:], shape, strides)


def as_numpy(tensor: torch.Tensor) -> Elements:
    """Return a tensor's numbers in numpy's type of the same name; bfloat16 as its own."""
    plain = tensor.detach().cpu()
    if plain.dtype is not torch.bfloat16:
        return plain.numpy()
    numbers = np.empty(plain.numel(), dtype=object)
    numbers[:] = [BFloat16(x) for x in plain.reshape(-1).tolist()]
    return numbers.reshape(tuple(plain.shape))


def element_of(x: Any, dtype: torch.dtype) -> Any:
    """Return an element as a tensor of this type holds it: a number, a draw, a winner."""
    if type(x) is Winner:
        return x
    kind = _KINDS[dtype]
    if type(x) is kind:
        return x
    if not isinstance(x, Draw):
        return to_bfloat16(x) if kind is BFloat16 else kind(x)
    if type(x.machine.sample) is kind:
        return x
    return x.cast(dtype) if dtype.is_floating_point else x.as_type(kind)


def _flat(values: Any) -> "list[Any]":
    if not isinstance(values, np.ndarray):
        return [values]
    plain = values.view(np.ndarray).ravel()
    return plain.tolist() if plain.dtype == object else list(plain)


def as_draws(elements: Elements) -> Any:
    """Return a copy of object elements as a ``DrawArray`` (or numbers)."""
    return draw_array(elements.ravel().tolist(), elements.shape)


def as_shared(elements: Elements) -> Any:
    """Return object elements as a ``DrawArray`` in the same memory; numbers alone as a copy."""
    copied = as_draws(elements)
    if type(copied) is not DrawArray or elements.ndim == 0:
        return copied
    shared = elements.view(DrawArray)
    shared._real = copied.dtype
    return shared

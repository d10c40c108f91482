"""Tensors with symbolic elements: their storage, types, uniforms, and ``torch.vmap`` over them.

A tensor that holds draws is an ordinary tensor filled with NaN whose storage has a shadow:
an object array with the draws. The shadow belongs to the storage, not to the tensor, so
views see what is written through other views. Tensors of integers hold winners of races, in
the same way, and whole draws.
"""

# ruff: noqa: D103 - methods and functions whose name and types say what a docstring would

__simverify_role__ = "stand-in"


import operator
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch._functorch import apis, vmap
from torch.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

from simverify.symbolic.arrays import (
    DrawArray,
    Winner,
    array_of_objects,
    is_symbolic,
    make_draw_array,
    resolve_winners,
    simplify_array,
)
from simverify.symbolic.forms import (
    DOUBLE_POINTS,
    DOUBLE_UNIFORM,
    SINGLE_POINTS,
    SINGLE_UNIFORM,
    BFloat16,
    Machine,
    half_precision_uniform,
    to_bfloat16,
)
from simverify.symbolic.provenance import names
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import RandomSource

Elements = np.ndarray[Any, Any]
_NUMPY_TYPES: dict[torch.dtype, Any] = {
    **{
        getattr(torch, name): getattr(np, name)
        for name in names(
            "float64 float32 float16 int64 int32 int16 int8 uint8 uint16 uint32 uint64"
        )
    },
    torch.bool: np.bool_,
    torch.bfloat16: BFloat16,
}
_PLAIN_TYPES = {int, float, bool, str, type(None), torch.dtype, torch.device, slice}


class SymbolicStorages:
    """The shadows of one path, by address of the storage (kept alive here).

    Tensors that were there before the path keep what it left in them: their numbers, and blanks
    in the place of draws. On :meth:`close` these become the numbers that they held before.
    """

    def __init__(self, source: RandomSource) -> None:
        self._source = source
        self._of: dict[int, tuple[torch.Tensor, Elements]] = {}
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def clear(self) -> None:
        """Forget the draws of a path."""
        with torch._C.DisableTorchFunction():
            for place, (whole, _) in self._before.items():
                if place in self._of:
                    kind = whole.dtype
                    left = [_as_plain(x, kind) for x in self._of[place][1].tolist()]
                    whole.copy_(torch.tensor(left, dtype=kind))
            self._of.clear()
            for place, (whole, _) in list(self._before.items()):
                if _is_ours_alone(whole):
                    del self._before[place]

    def close(self) -> None:
        """Let tensors hold numbers again where draws are left in them."""
        self.clear()
        with torch._C.DisableTorchFunction():
            for whole, before in self._before.values():
                blank = _placeholder_value(whole.dtype)
                left = whole.isnan() if whole.is_floating_point() else whole == blank
                whole.copy_(torch.where(left, before, whole))
        self._before.clear()

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
        return _strided_view(objects, tensor)

    def _entry(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Elements] | None:
        if not self._of or tensor.layout is not torch.strided:
            return None
        return self._of.get(tensor.untyped_storage().data_ptr())

    def is_symbolic(self, x: Any) -> bool:
        """Whether an argument is or contains a draw or a shadowed tensor with one."""
        kind = type(x)
        if kind in _PLAIN_TYPES:
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
            elif kind not in _PLAIN_TYPES and self.is_symbolic(x):
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
            plain = simplify_array(values) if isinstance(values, np.ndarray) else values
            return torch.as_tensor(np.asarray(plain)).to(dtype=dtype, device=device)
        if not may_hold_winners(dtype):
            if dtype is torch.bool:
                raise TypeError(f"draws in a tensor of {dtype}")
            values = resolve_winners(values)
            if not is_symbolic(values):
                return self.tensor(values, dtype, device)
        shape = values.shape if isinstance(values, np.ndarray) else ()
        result = torch.full(shape, _placeholder_value(dtype), dtype=dtype, device=device)
        # It is new: nothing else sees its storage, and nothing has to be read from it.
        cast = array_of_objects([as_element(x, dtype) for x in _flat_elements(values)])
        self._of[result.data_ptr()] = (result, cast)
        return result

    def write(self, tensor: torch.Tensor, values: Any) -> None:
        """Put elements, numbers or draws, into a tensor in place."""
        if 0 in tensor.stride() and np.ndim(values):
            # Where several elements are one number, torch takes one number for all or raises.
            tensor.detach().copy_(tensor.detach().clone())
        if not may_hold_winners(tensor.dtype):
            values = resolve_winners(values)
        elements = self.elements(tensor)
        if elements is None:
            if not is_symbolic(values):
                plain = simplify_array(values) if isinstance(values, np.ndarray) else values
                tensor.copy_(torch.as_tensor(np.asarray(plain)))
                return
            elements = self.make(tensor, read=False)
        kind = tensor.dtype
        cast = array_of_objects([as_element(x, kind) for x in _flat_elements(values)])
        elements[...] = cast.reshape(values.shape if isinstance(values, np.ndarray) else ())

    def shared(
        self, data: Any, dtype: torch.dtype | None, device: Any, *, copy: bool | None = None
    ) -> torch.Tensor | None:
        """Return a tensor in the memory of a tensor or array, as torch does; None for a copy."""
        if copy:
            return None
        if isinstance(data, torch.Tensor):
            return data.to(dtype=dtype or data.dtype, device=device or data.device)
        if type(data) is not DrawArray:
            return None
        kind = next((x for x, y in _NUMPY_TYPES.items() if y is data.dtype.type), None)
        objects = data.view(np.ndarray)
        on_cpu = torch.device(device or "cpu").type == "cpu"
        if kind is None or dtype not in (None, kind) or not (on_cpu and objects.flags.c_contiguous):
            return None
        result = torch.full(objects.shape, _placeholder_value(kind), dtype=kind)
        self._of[result.data_ptr()] = (result, objects.reshape(-1))
        return result

    def make(self, tensor: torch.Tensor, *, read: bool = True) -> Elements:
        """Give a tensor a shadow; ``read``: its numbers are wanted, not about to be replaced."""
        if not (tensor.is_floating_point() or may_hold_winners(tensor.dtype)):
            raise TypeError(f"draws in a tensor of {tensor.dtype}")
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        objects = np.empty(count, dtype=object)
        with torch._C.DisableTorchFunction():
            whole = _whole_storage(tensor)[:count]
            self._before.setdefault(storage.data_ptr(), (whole, whole.clone()))
        if count and (read or count != tensor.numel()):
            objects[:] = list(as_numpy(whole))
        self._of[storage.data_ptr()] = (tensor, objects)
        # Numbers that cannot be mistaken for the elements'.
        tensor.detach().fill_(_placeholder_value(tensor.dtype))
        return _strided_view(objects, tensor)

    def memory(self, tensor: torch.Tensor, size: int, *, make: bool = False) -> Elements | None:
        """Return ``size`` elements of a tensor's memory, for pointers; None: it has no shadow."""
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
        """Return an argument with its winners read; with ``draws``, its whole draws too."""
        if isinstance(x, list | tuple) and any(map(self.is_symbolic, x)):
            return type(x)(self.decide(y, draws=draws) for y in x)
        if not isinstance(x, torch.Tensor):
            return resolve_winners(x)
        elements = self.elements(x)
        if elements is None or x.is_floating_point():
            return x
        flat = [resolve_winners(y) for y in elements.ravel().tolist()]
        if draws:
            flat = [operator.index(y) for y in flat]
        elements.flat[:] = flat
        if any(isinstance(y, Draw) for y in flat):
            return x
        return torch.tensor(flat, dtype=x.dtype, device=x.device).reshape(x.shape)


def _is_ours_alone(whole: torch.Tensor) -> bool:
    """Whether no tensor but this one shows its memory."""
    storage = whole.untyped_storage()
    return int(torch._C._storage_Use_Count(storage._cdata)) <= _OUR_USES


_OUR_USES = 2
"""The tensor itself, and the storage that is asked."""


def _as_plain(x: Any, kind: torch.dtype) -> Any:
    """Return an element as torch takes it: a number of Python's, a blank for a draw."""
    if isinstance(x, Draw | Winner):
        return _placeholder_value(kind)
    return x.item() if isinstance(x, np.generic) else float(x)


def may_hold_winners(dtype: torch.dtype) -> bool:
    """Whether it is a type of integers, which holds whole draws too."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def _placeholder_value(dtype: torch.dtype) -> float | int:
    return torch.iinfo(dtype).min if may_hold_winners(dtype) else torch.nan


def _strided_view(objects: Elements, tensor: torch.Tensor) -> Elements:
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


def as_element(x: Any, dtype: torch.dtype) -> Any:
    """Return an element as a tensor of this type holds it: a number, a draw, a winner."""
    if type(x) is Winner:
        return x
    kind = _NUMPY_TYPES[dtype]
    if type(x) is kind:
        return x
    if not isinstance(x, Draw):
        return to_bfloat16(x) if kind is BFloat16 else kind(x)
    if type(x.machine.sample) is kind:
        return x
    return x.cast(dtype) if dtype.is_floating_point else x.as_type(kind)


def _flat_elements(values: Any) -> "list[Any]":
    if not isinstance(values, np.ndarray):
        return [values]
    plain = values.view(np.ndarray).ravel()
    return plain.tolist() if plain.dtype == object else list(plain)


def as_draws(elements: Elements) -> Any:
    """Return a copy of object elements as a ``DrawArray`` (or numbers)."""
    return make_draw_array(elements.ravel().tolist(), elements.shape)


def as_shared(elements: Elements) -> Any:
    """Return object elements as a ``DrawArray`` in the same memory; numbers alone as a copy."""
    copied = as_draws(elements)
    if type(copied) is not DrawArray or elements.ndim == 0:
        return copied
    shared = elements.view(DrawArray)
    shared._real = copied.dtype
    return shared


# Placeholders: what torch itself says of a call, its types and shapes, and what it refuses.
#
# Draws lie beside the tensors, which hold blanks. So the same function is called with copies that
# hold ones in the place of draws, and share their memory as the tensors do.


class TorchPlaceholders:
    """Copies of arguments on which torch may be asked."""

    shadows: SymbolicStorages

    def _asked(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what torch gives of ones in the place of draws; raises what it raises."""
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        places = Counter(x.untyped_storage().data_ptr() for x in tensors)
        wholes: dict[int, torch.Tensor] = {}

        def copied(x: Any) -> Any:
            place = x.untyped_storage().data_ptr() if isinstance(x, torch.Tensor) else None
            if place is None or places[place] == 1:
                return self._blank_copy(x)
            if place not in wholes:
                # What shares its elements does so in the copies.
                wholes[place] = self._blank_copy(_whole_storage(x))
            return wholes[place].as_strided(x.shape, x.stride(), x.storage_offset())

        return func(*map(copied, args), **{key: copied(x) for key, x in kwargs.items()})

    def _blank_copy(self, x: Any) -> Any:
        if isinstance(x, Draw):
            return x.as_python().machine.sample
        if not isinstance(x, torch.Tensor):
            return x
        if 0 in x.stride() and x.layout is torch.strided:
            # Several elements are one number: torch does not write into such a tensor.
            whole = self._blank_copy(_whole_storage(x))
            return whole.as_strided(x.shape, x.stride(), x.storage_offset())
        # A copy of each: some functions change their argument, and it may hold numbers.
        copy = x.detach().clone()
        return copy.fill_(1) if self.shadows.is_symbolic(x) else copy


def _whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of the memory that a tensor shows a part of, as a tensor of one dimension."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return whole.set_(tensor.detach().untyped_storage())


# The grids that torch fills tensors of uniforms from, by their type.
#
# Those of 16 bits are made in float32 and rounded; what would be the upper bound becomes the lower
# (``uniform_kernel`` in aten/src/ATen/native/cpu/DistributionTemplates.h). Earlier versions drew
# them from grids as coarse as the type.


def _has_fine_half_grid() -> bool:
    """Whether uniforms of 16 bits come from the grid of float32, as in later versions of torch."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(64, dtype=torch.bfloat16, generator=generator).double() * 2**8
    return bool((drawn != drawn.round()).any())


HALF_PRECISION_GRIDS: dict[torch.dtype, tuple[Callable[[Any], Any], int]] = {
    torch.float16: (np.float16, SINGLE_POINTS if _has_fine_half_grid() else 2**11),
    torch.bfloat16: (to_bfloat16, SINGLE_POINTS if _has_fine_half_grid() else 2**8),
}


@lru_cache(maxsize=256)
def uniform_grid(dtype: torch.dtype, low: float, high: float) -> tuple[Machine, int] | None:
    """Return the grid that torch fills a tensor from, and its points; None: it has none."""
    kind, points = HALF_PRECISION_GRIDS.get(dtype, (None, 0))
    if kind is not None and low < high and (points == SINGLE_POINTS or (low, high) == (0, 1)):
        return half_precision_uniform(kind, points, low, high), points
    if kind is not None or (low, high) != (0, 1):
        return None
    return (
        (DOUBLE_UNIFORM, DOUBLE_POINTS)
        if dtype is torch.float64
        else (SINGLE_UNIFORM, SINGLE_POINTS)
    )


# The types in which torch computes.


def is_factor(name: str, place: int, x: Any) -> bool:
    """Whether an operand meets 16 bits as it is; all others are rounded to 16 bits first."""
    if not isinstance(x, torch.Tensor):
        return name == "multiply" or (name in _DIVISIONS and place == 1)
    return x.dim() == 0 and place == 1 and name in ("multiply", *_DIVISIONS)


_DIVISIONS = ("divide", "floor_divide")


def type_signature(x: Any) -> tuple[Any, ...] | None:
    """Return what of an argument the type of a result depends on; None: on more than that."""
    if isinstance(x, torch.Tensor):
        plain = x.is_floating_point() and not x.requires_grad
        return (x.dtype, x.shape, x.device) if plain else None
    return (type(x),) if type(x) in (float, int) else None


def result_type(inputs: list[Any]) -> torch.dtype:
    kind = torch.result_type(inputs[0], inputs[1] if len(inputs) > 1 else inputs[0])
    for x in inputs[2:]:
        kind = torch.promote_types(kind, torch.result_type(inputs[0], x))
    return kind


# ``torch.vmap``, followed row by row.
#
# It promises what a loop over the rows does, but for randomness: an error unless it is allowed, one
# draw for all rows, or another for each. Draws of other libraries are made once for all rows, as
# the function runs once, and are refused.


VMAP_MODULE: Any = apis
"""The module whose ``vmap_impl`` every vmapped function calls."""


def vmap_by_rows(source: RandomSource, drawn_by_torch: Callable[[], int]) -> Callable[..., Any]:
    """Return what stands for torch's ``vmap_impl``; ``drawn_by_torch`` counts torch's draws."""

    def run(
        func: Any,
        in_dims: Any,
        out_dims: Any,
        randomness: str,
        chunk_size: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        size, dims, flat, spec = vmap._process_batched_inputs(in_dims, args, func)
        outputs = []
        for i in range(size):
            row = [x if d is None else x.select(d, i) for x, d in zip(flat, dims, strict=True)]
            before = len(source.draws), drawn_by_torch()
            outputs.append(func(*tree_unflatten(row, spec), **kwargs))
            drawn, torchs = len(source.draws) - before[0], drawn_by_torch() - before[1]
            if drawn > torchs:
                source.refuse("draws of other libraries inside torch.vmap (draw them before it)")
            if drawn and randomness == "error":
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either "
                    "use the 'same' or 'different' randomness flags on vmap or perform the "
                    "randomness operation out of vmap"
                )
            if drawn and randomness == "same":
                source.refuse("torch.vmap(randomness='same') (draw before it, or in a loop)")
        return _stack_outputs(outputs, out_dims)

    return run


def _stack_outputs(outputs: list[Any], out_dims: Any) -> Any:
    flat = [tree_flatten(output) for output in outputs]
    spec = flat[0][1]
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(f"vmap: out_dims={out_dims} does not fit what the function returns")
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    return tree_unflatten(
        [
            leaves[0] if dim is None else torch.stack(list(leaves), dim)
            for leaves, dim in zip(columns, dims, strict=True)
        ],
        spec,
    )

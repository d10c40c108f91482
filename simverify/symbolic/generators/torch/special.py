"""Functions of torch that have rules of their own; the name after ``_on_`` is torch's."""

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from simverify.symbolic.draws.attributes import boxed
from simverify.symbolic.draws.in_arrays.arrays import common_type, of_objects, settle
from simverify.symbolic.draws.in_arrays.elementwise import map_elements
from simverify.symbolic.draws.in_arrays.functions import places
from simverify.symbolic.draws.in_arrays.ufuncs import UFUNCS
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.several.winners import decided
from simverify.symbolic.generators.torch.scattering import TorchScattering
from simverify.symbolic.generators.torch.shadow import (
    as_draws,
    as_shared,
    element_of,
    may_hold_winners,
)

_REAL_TENSOR = torch.tensor


class TorchSpecial(TorchScattering):
    """Handlers by name; each gets the arguments of the function."""

    if TYPE_CHECKING:

        def _refuse(self, name: str) -> NoReturn:
            """See TorchOps."""

        def _wrap(self, values: Any, inputs: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
            """See TorchOps."""

        def _in_common_type(self, *inputs: Any) -> list[Any]:
            """See TorchOps."""

        def _elementwise(self, func: Any, args: Any, name: str, inputs: tuple[Any, ...]) -> Any:
            """See TorchOps."""

        def _of_type(self, x: Any, dtype: torch.dtype) -> Any:
            """See TorchOps."""

    def _on_where(self, condition: Any, *values: Any, **kwargs: Any) -> Any:
        condition = self.shadows.decide(condition)
        if len(values) != 2 or kwargs or self.shadows.is_symbolic(condition):
            self._refuse("where")
        arrays = [self.shadows.numbers(x) for x in (condition, *values)]
        return self._wrap(map_elements(lambda c, x, y: x if c else y, arrays), values)

    def _on_masked_fill(self, tensor: torch.Tensor, mask: Any, value: Any) -> Any:
        self._asked(torch.masked_fill, tensor, mask, value)
        arrays = [self.shadows.numbers(x) for x in (mask, value, tensor)]
        return self._wrap(map_elements(lambda c, x, y: x if c else y, arrays), (tensor,))

    def _on_masked_fill_(self, tensor: torch.Tensor, mask: Any, value: Any) -> torch.Tensor:
        if 0 in tensor.stride():
            self._refuse("masked_fill_ of an expanded tensor")  # a number for all that are one
        self.shadows.write(tensor, self.shadows.numbers(self._on_masked_fill(tensor, mask, value)))
        return tensor

    def _on_clamp(self, tensor: torch.Tensor, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        kind = self._asked(torch.clamp, tensor, min, max).dtype
        values = self._of_type(self.shadows.numbers(tensor), kind)
        for bound, ufunc in ((min, np.maximum), (max, np.minimum)):
            if bound is not None:
                bounds = self._of_type(self.shadows.numbers(bound), kind)
                values = map_elements(UFUNCS[ufunc], [values, bounds])
        return self._wrap(values, (tensor,), kind)

    _on_clip = _on_clamp

    def _on_clamp_min(self, tensor: torch.Tensor, min: Any) -> Any:  # noqa: A002
        return self._on_clamp(tensor, min)

    def _on_clamp_max(self, tensor: torch.Tensor, max: Any) -> Any:  # noqa: A002
        return self._on_clamp(tensor, None, max)

    def _along(self, tensor: Any, dim: Any, keepdim: bool, what: str, kind: Any = None) -> Any:
        elements = self._elements(tensor) if kind is None else self._elements_as(tensor, kind)
        array = as_draws(elements)
        if dim is None:
            return getattr(np, what)(array)
        return getattr(np, what)(array, axis=dim, keepdims=keepdim)

    def _elements(self, tensor: torch.Tensor) -> Any:
        elements = self.shadows.elements(tensor)
        assert elements is not None
        return elements

    def _elements_as(self, tensor: torch.Tensor, kind: torch.dtype) -> Any:
        elements = self._elements(tensor)
        flat = [element_of(x, kind) for x in elements.ravel().tolist()]
        return of_objects(flat).reshape(elements.shape)

    def _on_sum(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._added(tensor, dim, keepdim, "sum")

    def _on_prod(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._added(tensor, dim, keepdim, "prod")

    def _added(self, tensor: Any, dim: Any, keepdim: bool, what: str) -> Any:
        inside, kind = _adds_in(tensor)
        return self._wrap(self._along(tensor, dim, keepdim, what, inside), (tensor,), kind)

    def _on_cumsum(self, tensor: Any, dim: int) -> Any:
        return self._running(tensor, dim, np.cumsum)

    def _on_cumprod(self, tensor: Any, dim: int) -> Any:
        return self._running(tensor, dim, np.cumprod)

    def _running(self, tensor: Any, dim: int, what: Callable[..., Any]) -> Any:
        inside, kind = _adds_in(tensor)
        return self._wrap(
            what(as_draws(self._elements_as(tensor, inside)), axis=dim), (tensor,), kind
        )

    def _on_argmax(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._indices(self._along(tensor, dim, keepdim, "argmax"), tensor)

    def _on_argmin(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._indices(self._along(tensor, dim, keepdim, "argmin"), tensor)

    def _indices(self, values: Any, tensor: torch.Tensor) -> torch.Tensor:
        return self.shadows.tensor(values, torch.int64, tensor.device)

    def _extreme(self, tensor: Any, dim: Any, keepdim: bool, name: str) -> Any:
        if isinstance(dim, torch.Tensor):
            return self._elementwise(
                getattr(torch, f"{name}imum"), (tensor, dim), f"{name}imum", (tensor, dim)
            )
        if dim is None:
            return self._wrap(self._along(tensor, None, False, name), (tensor,))
        array = as_draws(self._elements(tensor))
        index = decided(getattr(np, f"arg{name}")(array, axis=dim, keepdims=True))
        values = np.take_along_axis(array.view(np.ndarray), index, axis=dim)
        if not keepdim:
            values, index = values.squeeze(dim), index.squeeze(dim)
        pair = (self._wrap(settle(values), (tensor,)), torch.as_tensor(index))
        return getattr(torch.return_types, name)(pair)

    def _on_max(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._extreme(tensor, dim, keepdim, "max")

    def _on_min(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._extreme(tensor, dim, keepdim, "min")

    def _on_argsort(self, tensor: Any, dim: int = -1, descending: bool = False) -> Any:
        array = as_draws(self._elements(tensor))
        if not descending:
            return torch.as_tensor(np.argsort(array, axis=dim, kind="stable"))
        # Of equal elements the first comes first.
        order = np.argsort(np.flip(array, axis=dim), axis=dim, kind="stable")
        return torch.as_tensor(np.asarray(array.shape[dim] - 1 - np.flip(order, axis=dim)).copy())

    def _on_sort(self, tensor: Any, dim: int = -1, descending: bool = False) -> Any:
        order = self._on_argsort(tensor, dim, descending)
        return torch.return_types.sort((self._taken(tensor, order, dim), order))

    def _on_topk(self, tensor: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
        order = self._on_argsort(tensor, dim, largest)
        sorted_ = np.take_along_axis(self._elements(tensor), order.numpy(), axis=dim)
        lanes = np.moveaxis(sorted_, dim, -1)
        if any(x == y for lane in lanes.reshape(-1, lanes.shape[-1]).tolist()
               for x, y in pairwise(lane[: k + 1])):  # fmt: skip
            self._refuse("topk of equal elements, whose order it leaves open,")
        order = order.narrow(dim, 0, k)
        return torch.return_types.topk((self._taken(tensor, order, dim), order))

    def _taken(self, tensor: Any, index: torch.Tensor, dim: int) -> torch.Tensor:
        values = np.take_along_axis(self._elements(tensor), index.numpy(), axis=dim)
        return self._wrap(as_draws(values), (tensor,))

    def _on_searchsorted(self, sorted_sequence: Any, values: Any, **kwargs: Any) -> Any:
        if self.shadows.is_symbolic(sorted_sequence) or sorted_sequence.dim() != 1:
            self._refuse("searchsorted in rows or in random rows")
        side = kwargs.get("side") or ("right" if kwargs.get("right") else "left")
        cells, keys = self._in_common_type(sorted_sequence, values)
        return torch.as_tensor(np.asarray(places(cells, keys, side)))

    def _on_bucketize(self, values: Any, boundaries: Any, *, right: bool = False) -> Any:
        return self._on_searchsorted(boundaries, values, right=right)

    def _on_as_tensor(self, data: Any, dtype: Any = None, device: Any = None, **kw: Any) -> Any:
        shared = self.shadows.shared(data, dtype, device, **kw)
        return self._on_tensor(data, dtype, device) if shared is None else shared

    def _on_tensor(self, data: Any, dtype: Any = None, device: Any = None, **kw: Any) -> Any:
        del kw
        if isinstance(data, torch.Tensor):
            values, natural = self._elements(data), data.dtype
        else:
            values = data.view(np.ndarray) if isinstance(data, np.ndarray) else _objects(data)
            flat = values.ravel().tolist()
            sample = common_type(flat)
            if isinstance(data, np.ndarray):
                sample = data.dtype
            natural = _REAL_TENSOR(np.zeros(1, sample)).dtype
            if not isinstance(data, np.ndarray) and natural is torch.float64:
                # Numbers of Python's, and numpy's in lists, become the default.
                natural = torch.get_default_dtype()
        place = torch.device(device or "cpu")
        return self.shadows.tensor(as_draws(values), dtype or natural, place)

    def _on_item(self, tensor: torch.Tensor) -> Any:
        if tensor.numel() != 1:
            raise RuntimeError("a Tensor with more than one element cannot be converted to Scalar")
        return _python(decided(self._elements(tensor).ravel()[0]))

    def _on_tolist(self, tensor: torch.Tensor) -> Any:
        return as_draws(self._elements(tensor)).tolist()

    def _on_numpy(self, tensor: torch.Tensor, dtype: Any = None, **kwargs: Any) -> Any:
        tensor.dtype is torch.bfloat16 and self._refuse("numpy() of bfloat16")
        result = as_shared(self._elements(tensor))
        return result if dtype is None else result.astype(dtype)

    _on_array, _on_asarray, _on_from_numpy = _on_numpy, _on_as_tensor, _on_as_tensor

    def _on_setitem(self, tensor: torch.Tensor, index: Any, value: Any) -> None:
        index = self.shadows.decide(index, draws=True)
        if not may_hold_winners(tensor.dtype):
            value = self.shadows.decide(value)
        if not any(map(self.shadows.is_symbolic, (tensor, value))):
            tensor[index] = value
            return
        place = tensor[index]
        # For what it raises.
        asks = torch.is_tensor(value) or 0 in tensor.stride()
        blank = (tensor, index) if asks else (torch.empty_like(place), ...)
        self._asked(operator.setitem, *blank, value)
        # As objects: of an array of 16 bits the elements would become numbers of Python's.
        values = self._of_type(self.shadows.numbers(value), tensor.dtype)
        if self.shadows.elements(tensor) is None:
            self.shadows.make(tensor)
        if isinstance(values, np.ndarray):
            within = values.shape[max(0, values.ndim - place.dim()) :]
            values = np.broadcast_to(values.reshape(within), place.shape)[()]
        self._elements(tensor)[_numpy_index(index)] = values

    def _on_copy_(self, tensor: torch.Tensor, other: Any, *rest: Any) -> torch.Tensor:
        self.shadows.write(
            tensor, np.broadcast_to(self.shadows.numbers(other), tuple(tensor.shape)).copy()
        )
        return tensor

    def _on_fill_(self, tensor: torch.Tensor, value: Any) -> torch.Tensor:
        self._asked(torch.Tensor.fill_, tensor, value)  # for what it raises
        self.shadows.write(tensor, self.shadows.numbers(value))
        return tensor

    def _on_zero_(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._on_fill_(tensor, 0.0)

    def _on_equal(self, tensor: Any, other: Any) -> bool:
        torch.equal(*(torch.empty_like(x) for x in (tensor, other)))  # for what it raises
        if tensor.shape != other.shape:
            return False
        return bool(self._elementwise(torch.eq, (tensor, other), "equal", (tensor, other)).all())

    def _on_data_ptr(self, tensor: torch.Tensor) -> Any:
        self._refuse("data_ptr")


def _adds_in(tensor: torch.Tensor) -> tuple[torch.dtype, torch.dtype]:
    """Return the types in which torch adds up, and that of what it gives."""
    if not tensor.dtype.is_floating_point:
        return torch.int64, torch.int64
    coarse = tensor.dtype in (torch.float16, torch.bfloat16)
    return (torch.float32 if coarse else tensor.dtype), tensor.dtype


def _objects(data: Any) -> Any:
    """Return nested lists as an array of objects, which draws alone would be taken out of."""
    if not isinstance(data, list | tuple):
        scalar = np.empty((), dtype=object)
        scalar[()] = data
        return scalar
    return boxed(data)


def _python(x: Any) -> Any:
    return x.as_python() if isinstance(x, Draw) else x.item() if isinstance(x, np.generic) else x


def _numpy_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_numpy_index(i) for i in index)
    return index.numpy() if isinstance(index, torch.Tensor) else index

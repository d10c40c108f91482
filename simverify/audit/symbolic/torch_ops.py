"""What torch's functions do to symbolic tensors."""

import operator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from simverify.audit.symbolic.arrays import _map, settle
from simverify.audit.symbolic.draws import Draw
from simverify.audit.symbolic.source import Source
from simverify.audit.symbolic.torch_shadow import Shadows, as_draws, may_hold_winners
from simverify.audit.symbolic.ufuncs import UFUNCS
from simverify.audit.symbolic.winners import Winner, decided, whole

if TYPE_CHECKING:
    from collections.abc import Callable

_SAME_NAME = {
    "sign", "signbit", "heaviside",
    "log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "square", "floor", "trunc", "ceil",
    "isnan", "isinf", "isfinite", "minimum", "maximum", "fmin", "fmax", "logical_not",
    "logical_and", "logical_or", "reciprocal", "absolute", "negative", "positive", "less",
    "less_equal", "greater", "greater_equal", "equal", "not_equal", "add", "subtract",
    "multiply", "divide", "power", "float_power", "remainder", "floor_divide",
}  # fmt: skip
_ALIASES = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal", "sub": "subtract", "mul": "multiply", "div": "divide",
    "true_divide": "divide", "truediv": "divide", "pow": "power", "neg": "negative",
    "abs": "absolute", "pos": "positive", "mod": "remainder", "floordiv": "floor_divide",
    "invert": "logical_not", "iadd": "add", "isub": "subtract", "imul": "multiply",
    "itruediv": "divide", "idiv": "divide",
}  # fmt: skip
_REVERSED = {
    "rsub": "subtract", "rdiv": "divide", "rtruediv": "divide", "rpow": "power", "radd": "add",
    "rmul": "multiply",
}  # fmt: skip
_MOVES = {
    "getitem", "view", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "permute",
    "transpose", "t", "swapaxes", "swapdims", "movedim", "moveaxis", "cat", "concat",
    "concatenate", "stack", "hstack", "vstack", "gather", "index_select", "masked_select",
    "repeat", "tile", "roll", "flip", "narrow", "select", "split", "chunk", "unbind", "take",
    "take_along_dim", "expand_as", "view_as", "reshape_as", "broadcast_to", "atleast_1d",
    "atleast_2d", "unflatten", "ravel", "iter", "tensor_split", "diagonal", "repeat_interleave",
    "adjoint", "fliplr", "flipud",
}  # fmt: skip
_JOINS = {"cat", "concat", "concatenate", "stack", "hstack", "vstack"}
_COPIES = {
    "to", "float", "double", "half", "bfloat16", "type", "type_as", "clone", "detach",
    "contiguous", "cpu", "cuda", "detach_", "long", "int", "short", "bool",
}  # fmt: skip
_PLAIN = {
    "get", "size", "dim", "numel", "nelement", "ndimension", "stride", "is_contiguous",
    "element_size", "len", "storage_offset", "is_floating_point", "is_complex", "get_device",
    "repr", "hash", "requires_grad_", "untyped_storage", "is_same_size", "is_signed",
}  # fmt: skip
_CARRIES = _MOVES | _COPIES | _PLAIN | {
    "where", "setitem", "masked_fill", "copy_", "fill_", "zero_", "data_ptr", "item", "tolist",
    "numpy", "array", "tensor", "as_tensor", "asarray", "from_numpy",
}  # fmt: skip
"""What leaves the winners of races unread."""


class TorchOps:
    """Runs one torch function on arguments of which at least one is symbolic."""

    def __init__(self, source: Source, shadows: Shadows) -> None:
        self.source = source
        self.shadows = shadows
        self._special: dict[str, Callable[..., Any]] = {
            name.removeprefix("_on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_on_")
        }

    def run(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return ``func(*args, **kwargs)``, or refuse it by name."""
        bare = name.strip("_") if name.startswith("__") else name
        if "out" in kwargs:
            self._refuse(f"{name}(out=)")
        if name in ("__int__", "__index__"):
            return (int if name == "__int__" else operator.index)(self._on_item(*args))
        if name in ("__float__", "__complex__", "__format__"):
            self._refuse(name)
        if name == "__bool__":
            return bool(self._on_item(*args))
        if bare not in _CARRIES and bare.rstrip("_") not in _CARRIES:
            given, args = args, self.shadows.decide(tuple(args))
            kwargs = {key: self.shadows.decide(x) for key, x in kwargs.items()}
            if not any(map(self.shadows.is_symbolic, (*args, *kwargs.values()))):
                return self._of_numbers(func, given, args, kwargs)
        if bare in self._special:
            return self._special[bare](*args, **kwargs)
        if bare in _PLAIN:
            return func(*args, **kwargs)
        if bare in _COPIES:
            return self._copy(func, args, kwargs)
        if bare in _MOVES:
            return self._move(func, args, kwargs, everything=bare in _JOINS)
        base = bare.rstrip("_")
        if base in _REVERSED:
            return self._elementwise(_REVERSED[base], (args[1], args[0]))
        ufunc = _ALIASES.get(base, base)
        if ufunc in _SAME_NAME and not (set(kwargs) - {"other", "exponent"}):
            result = self._elementwise(ufunc, (*args, *kwargs.values()))
        elif base in self._special:
            result = self._special[base](*args, **kwargs)
        else:
            self._refuse(name)
        if bare.endswith("_") or bare in ("iadd", "isub", "imul", "itruediv", "idiv"):
            self.shadows.write(args[0], self.shadows.numbers(result))
            return args[0]
        return result

    def _of_numbers(self, func: Any, given: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a function once the winners are read, also one that changes its argument."""
        result = func(*args, **kwargs)
        if not args or result is not args[0] or args[0] is given[0]:
            return result
        self.shadows.write(given[0], result.detach().cpu().numpy().astype(object))
        return given[0]

    def converter(self, name: str, original: Any) -> "Callable[..., Any]":
        """Return what stands for a function that makes tensors: no mode sees some of them."""

        def convert(data: Any, *args: Any, **kwargs: Any) -> Any:
            nested = isinstance(data, list | tuple | np.ndarray | Draw)
            if nested and self.shadows.is_symbolic(data):
                return self._special[name](data, *args, **kwargs)
            return original(data, *args, **kwargs)

        return convert

    def _refuse(self, name: str) -> NoReturn:
        self.source.refuse(f"torch's {name} of a random tensor")

    def _elementwise(self, name: str, inputs: tuple[Any, ...]) -> Any:
        values = _map(UFUNCS[getattr(np, name)], [self.shadows.numbers(x) for x in inputs])
        return self._wrap(values, inputs)

    def _wrap(self, values: Any, inputs: Any) -> torch.Tensor:
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        if not tensors:
            self._refuse("function of a scalar")
        kind = "O" if isinstance(values, Draw) else np.asarray(values).dtype.kind
        if kind in "fO":
            dtype = torch.result_type(tensors[0], tensors[-1])
            if not dtype.is_floating_point and not _holds_integers(values):
                dtype = torch.get_default_dtype()
        else:
            dtype = torch.bool if kind == "b" else torch.int64
        return self.shadows.tensor(values, dtype, tensors[0].device)

    def _copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        tensor = args[0]
        if not isinstance(result, torch.Tensor):
            self._refuse(getattr(func, "__name__", "conversion"))
        if result.data_ptr() == tensor.data_ptr():
            return result
        elements = self.shadows.elements(tensor)
        assert elements is not None
        if result.dtype is torch.bool:
            return self.shadows.tensor(_map(bool, [elements]), torch.bool, result.device)
        if not result.is_floating_point():
            return self.shadows.tensor(_map(whole, [elements]), result.dtype, result.device)
        self.shadows.write(result, elements.copy())
        return result

    def _move(
        self, func: Any, args: Any, kwargs: dict[str, Any], *, everything: bool = False
    ) -> Any:
        """Run the move; where it copied, run it on element numbers to see what went where."""
        if not everything:
            # What says where to move must be known.
            args = (args[0], *(self.shadows.decide(x, draws=True) for x in args[1:]))
            kwargs = {key: self.shadows.decide(x, draws=True) for key, x in kwargs.items()}
        result = func(*args, **kwargs)
        if not any(map(self.shadows.is_symbolic, (*args, *kwargs.values()))):
            return result
        parts = [result] if isinstance(result, torch.Tensor) else list(result)
        if all(part.numel() == 0 or self.shadows.elements(part) is not None for part in parts):
            return result
        pool: list[Any] = []
        traced = func(
            *[self._numbered(x, pool, everything) for x in args],
            **{k: self._numbered(x, pool, everything) for k, x in kwargs.items()},
        )
        for part, index in zip(
            parts, [traced] if isinstance(traced, torch.Tensor) else traced, strict=True
        ):
            chosen = np.empty(part.numel(), dtype=object)
            chosen[:] = [pool[i] for i in index.reshape(-1).tolist()]
            self.shadows.write(part, chosen.reshape(tuple(part.shape)))
        return result

    def _numbered(self, x: Any, pool: list[Any], everything: bool) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(self._numbered(y, pool, everything) for y in x)
        # Integers and booleans are indices and masks, unless tensors are being joined.
        moved = isinstance(x, torch.Tensor) and (everything or x.is_floating_point())
        if not moved and not (isinstance(x, torch.Tensor) and self.shadows.is_symbolic(x)):
            return x
        first = len(pool)
        pool.extend(np.asarray(self.shadows.numbers(x)).ravel().tolist())
        return torch.arange(first, len(pool)).reshape(x.shape)

    # -- functions with rules of their own; the name after _on_ is torch's --

    def _on_where(self, condition: Any, *values: Any, **kwargs: Any) -> Any:
        condition = self.shadows.decide(condition)
        if len(values) != 2 or kwargs or self.shadows.is_symbolic(condition):
            self._refuse("where")
        arrays = [self.shadows.numbers(x) for x in (condition, *values)]
        return self._wrap(_map(lambda c, x, y: x if c else y, arrays), values)

    def _on_masked_fill(self, tensor: torch.Tensor, mask: Any, value: Any) -> Any:
        arrays = [self.shadows.numbers(x) for x in (mask, value, tensor)]
        return self._wrap(_map(lambda c, x, y: x if c else y, arrays), (tensor,))

    def _on_clamp(self, tensor: torch.Tensor, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        values = self.shadows.numbers(tensor)
        if min is not None:
            values = _map(UFUNCS[np.maximum], [values, self.shadows.numbers(min)])
        if max is not None:
            values = _map(UFUNCS[np.minimum], [values, self.shadows.numbers(max)])
        return self._wrap(values, (tensor,))

    _on_clip = _on_clamp

    def _on_clamp_min(self, tensor: torch.Tensor, min: Any) -> Any:  # noqa: A002
        return self._on_clamp(tensor, min)

    def _on_clamp_max(self, tensor: torch.Tensor, max: Any) -> Any:  # noqa: A002
        return self._on_clamp(tensor, None, max)

    def _along(self, tensor: Any, dim: Any, keepdim: bool, what: str) -> Any:
        array = as_draws(self._elements(tensor))
        if dim is None:
            return getattr(np, what)(array)
        return getattr(np, what)(array, axis=dim, keepdims=keepdim)

    def _elements(self, tensor: torch.Tensor) -> Any:
        elements = self.shadows.elements(tensor)
        assert elements is not None
        return elements

    def _on_sum(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._wrap(self._along(tensor, dim, keepdim, "sum"), (tensor,))

    def _on_prod(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._wrap(self._along(tensor, dim, keepdim, "prod"), (tensor,))

    def _on_cumsum(self, tensor: Any, dim: int) -> Any:
        return self._wrap(np.cumsum(as_draws(self._elements(tensor)), axis=dim), (tensor,))

    def _on_cumprod(self, tensor: Any, dim: int) -> Any:
        return self._wrap(np.cumprod(as_draws(self._elements(tensor)), axis=dim), (tensor,))

    def _on_argmax(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._indices(self._along(tensor, dim, keepdim, "argmax"), tensor)

    def _on_argmin(self, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return self._indices(self._along(tensor, dim, keepdim, "argmin"), tensor)

    def _indices(self, values: Any, tensor: torch.Tensor) -> torch.Tensor:
        return self.shadows.tensor(values, torch.int64, tensor.device)

    def _extreme(self, tensor: Any, dim: Any, keepdim: bool, name: str) -> Any:
        if isinstance(dim, torch.Tensor):
            return self._elementwise(f"{name}imum", (tensor, dim))
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
        order = np.argsort(array, axis=dim, kind="stable")
        return torch.as_tensor(np.flip(order, axis=dim).copy() if descending else order)

    def _on_sort(self, tensor: Any, dim: int = -1, descending: bool = False) -> Any:
        order = self._on_argsort(tensor, dim, descending)
        return torch.return_types.sort((self._taken(tensor, order, dim), order))

    def _on_topk(self, tensor: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
        order = self._on_argsort(tensor, dim, largest).narrow(dim, 0, k)
        return torch.return_types.topk((self._taken(tensor, order, dim), order))

    def _taken(self, tensor: Any, index: torch.Tensor, dim: int) -> torch.Tensor:
        values = np.take_along_axis(self._elements(tensor), index.numpy(), axis=dim)
        return self._wrap(as_draws(values), (tensor,))

    def _on_searchsorted(self, sorted_sequence: Any, values: Any, **kwargs: Any) -> Any:
        if self.shadows.is_symbolic(sorted_sequence) or sorted_sequence.dim() != 1:
            self._refuse("searchsorted in rows or in random rows")
        side = kwargs.get("side") or ("right" if kwargs.get("right") else "left")
        cells = np.asarray(self.shadows.numbers(sorted_sequence), dtype=object)
        found = cells.searchsorted(self._elements(values), side=side)  # type: ignore[arg-type]
        return torch.as_tensor(np.asarray(found))

    def _on_bucketize(self, values: Any, boundaries: Any, *, right: bool = False) -> Any:
        return self._on_searchsorted(boundaries, values, right=right)

    def _on_tensor(self, data: Any, dtype: Any = None, device: Any = None, **kw: Any) -> Any:
        del kw
        values = np.asarray(self.shadows.numbers(data), dtype=object)
        if dtype is None and _holds_integers(values):
            dtype = torch.int64
        dtype = dtype or (torch.float64 if isinstance(data, np.ndarray) else None)
        place = torch.device(device or "cpu")
        return self.shadows.tensor(as_draws(values), dtype or torch.get_default_dtype(), place)

    _on_as_tensor = _on_asarray = _on_from_numpy = _on_tensor

    def _on_item(self, tensor: torch.Tensor) -> Any:
        if tensor.numel() != 1:
            raise RuntimeError("a Tensor with more than one element cannot be converted to Scalar")
        return decided(self._elements(tensor).ravel()[0])

    def _on_tolist(self, tensor: torch.Tensor) -> Any:
        return self._elements(tensor).tolist()

    def _on_numpy(self, tensor: torch.Tensor, **kwargs: Any) -> Any:
        return as_draws(self._elements(tensor))

    def _on_array(self, tensor: torch.Tensor, dtype: Any = None) -> Any:
        result = as_draws(self._elements(tensor))
        return result if dtype is None else result.astype(dtype)

    def _on_setitem(self, tensor: torch.Tensor, index: Any, value: Any) -> None:
        index = self.shadows.decide(index, draws=True)
        if not may_hold_winners(tensor.dtype):
            value = self.shadows.decide(value)
        if not any(map(self.shadows.is_symbolic, (tensor, value))):
            tensor[index] = value
            return
        place = tensor[index]
        values = self.shadows.numbers(value)
        if may_hold_winners(tensor.dtype):
            values = _map(whole, [values])
        if self.shadows.elements(tensor) is None:
            self.shadows.make(tensor)
        self._elements(tensor)[_numpy_index(index)] = (
            values if not isinstance(values, np.ndarray) else np.broadcast_to(values, place.shape)
        )

    def _on_copy_(self, tensor: torch.Tensor, other: Any, *rest: Any) -> torch.Tensor:
        self.shadows.write(
            tensor, np.broadcast_to(self.shadows.numbers(other), tuple(tensor.shape)).copy()
        )
        return tensor

    def _on_fill_(self, tensor: torch.Tensor, value: Any) -> torch.Tensor:
        self.shadows.write(tensor, self.shadows.numbers(value))
        return tensor

    def _on_zero_(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._on_fill_(tensor, 0.0)

    def _on_data_ptr(self, tensor: torch.Tensor) -> Any:
        self._refuse("data_ptr")


def _holds_integers(values: Any) -> bool:
    """Whether all elements are winners of races, integers or whole draws."""
    elements = values.flat if isinstance(values, np.ndarray) else (values,)
    return all(
        x.form.is_whole()
        if isinstance(x, Draw)
        else type(x) is Winner or isinstance(x, int | np.integer)
        for x in elements
    )


def _numpy_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_numpy_index(i) for i in index)
    return index.numpy() if isinstance(index, torch.Tensor) else index

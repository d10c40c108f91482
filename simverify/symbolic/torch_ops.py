"""torch's functions on symbolic tensors."""

__simverify_role__ = "stand-in"


import operator
from collections.abc import Callable
from functools import partialmethod
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import torch

from simverify.symbolic.array_functions import sorted_positions
from simverify.symbolic.arrays import (
    UFUNC_RULES,
    array_of_objects,
    as_objects,
    as_python_value,
    common_type,
    holds_objects,
    map_elements,
    resolve_winners,
    simplify_array,
)
from simverify.symbolic.provenance import CannotEnumerate, FloatOfDraw, name_pairs, names
from simverify.symbolic.scalar import Draw, nested_object_array
from simverify.symbolic.source import RandomSource
from simverify.symbolic.symbolic_tensor import (
    SymbolicStorages,
    TorchPlaceholders,
    as_draws,
    as_element,
    as_shared,
    is_factor,
    may_hold_winners,
    result_type,
    type_signature,
)

_REAL_TENSOR = torch.tensor


_SHARED_NAMES = names(
    "sign signbit heaviside log log2 log10 log1p exp expm1 sqrt square floor trunc ceil isnan "
    "isinf isfinite minimum maximum fmin fmax logical_not logical_and logical_or reciprocal "
    "absolute negative positive less less_equal greater greater_equal equal not_equal add "
    "subtract multiply divide power float_power remainder floor_divide"
)
_ALIASES = name_pairs(
    "lt:less le:less_equal gt:greater ge:greater_equal eq:equal ne:not_equal sub:subtract "
    "mul:multiply div:divide true_divide:divide truediv:divide pow:power neg:negative "
    "abs:absolute pos:positive mod:remainder floordiv:floor_divide invert:logical_not "
    "iadd:add isub:subtract imul:multiply itruediv:divide idiv:divide"
)
_REVERSED_OPERATIONS = {
    f"r{name}": _ALIASES.get(name, name) for name in names("sub div truediv pow add mul")
}
_MOVE_FUNCTIONS = names(
    "getitem view reshape flatten squeeze unsqueeze expand permute transpose t swapaxes swapdims "
    "movedim moveaxis cat concat concatenate stack hstack vstack gather index_select masked_select "
    "repeat tile roll flip narrow select split chunk unbind take take_along_dim expand_as view_as "
    "reshape_as broadcast_to atleast_1d atleast_2d unflatten ravel iter tensor_split diagonal "
    "repeat_interleave adjoint fliplr flipud atleast_3d column_stack row_stack dstack hsplit "
    "vsplit dsplit split_with_sizes unsafe_split unsafe_split_with_sizes unsafe_chunk unfold rot90 "
    "cartesian_prod"
)
_JOIN_FUNCTIONS = names(
    "cat concat concatenate stack hstack vstack column_stack row_stack dstack cartesian_prod"
)
_COPY_FUNCTIONS = names(
    "to float double half bfloat16 type type_as clone detach contiguous cpu cuda detach_ long int "
    "short bool"
)
_METADATA_FUNCTIONS = names(
    "get size dim numel nelement ndimension stride is_contiguous element_size len storage_offset "
    "is_floating_point is_complex get_device repr hash requires_grad_ untyped_storage is_same_size "
    "is_signed broadcast_tensors meshgrid"
)
_ADD_FUNCTIONS = {"index_add": "index_copy", "scatter_add": "scatter"}
"""What adds to the elements at some places, and what puts new ones there instead."""

_WRITE_FUNCTIONS = {
    *_ADD_FUNCTIONS,
    *names("index_put index_copy index_fill put masked_scatter slice_scatter select_scatter"),
}
_IN_PLACE_OPERATORS = names("iadd isub imul itruediv idiv")
_COMPARISON_FUNCTIONS = names("less less_equal greater greater_equal equal not_equal")
_WINNER_PRESERVING = frozenset().union(
    _MOVE_FUNCTIONS,
    _COPY_FUNCTIONS,
    _METADATA_FUNCTIONS,
    names(
        "where setitem masked_fill scatter copy_ fill_ zero_ data_ptr item tolist numpy array "
        "tensor as_tensor asarray from_numpy"
    ),
)
"""What leaves the winners of races unread."""


class TorchOps(TorchPlaceholders):
    """Runs one torch function on arguments of which at least one is symbolic."""

    def __init__(self, source: RandomSource, shadows: SymbolicStorages) -> None:
        self.source = source
        self.shadows = shadows
        self._known_types: dict[tuple[Any, ...], tuple[torch.dtype, torch.dtype]] = {}
        self._special: dict[str, Callable[..., Any]] = {
            name.removeprefix("_on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_on_")
        }

    def run(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return ``func(*args, **kwargs)``, or refuse it by name."""
        bare = name.strip("_") if name.startswith("__") else name
        if kwargs.get("out") is not None:
            out = kwargs.pop("out")
            if not isinstance(out, torch.Tensor):
                self._refuse(f"{name}(out=) of several tensors")
            if self.shadows.among((*args, *kwargs.values())):
                return self.into(self.run(func, name, args, kwargs), out)
            return self.into(func(*args, **kwargs), out)
        if name in ("__int__", "__index__"):
            number = self._on_item(*args)
            if name == "__index__":
                return operator.index(number)
            return number.__int__() if isinstance(number, Draw) else int(number)
        if name in ("__float__", "__complex__", "__format__"):
            self._refuse(name)
        if name == "__bool__":
            return bool(self._on_item(*args))
        if bare not in _WINNER_PRESERVING and bare.rstrip("_") not in _WINNER_PRESERVING:
            given, args = args, self.shadows.decide(tuple(args))
            kwargs = {key: self.shadows.decide(x) for key, x in kwargs.items()}
            if not self.shadows.among((*args, *kwargs.values())):
                return self._of_numbers(func, given, args, kwargs)
        in_place = bare.endswith("_") or bare in _IN_PLACE_OPERATORS
        if in_place:
            self._asked(func, *args, **kwargs)
        if bare in self._special:
            if any(isinstance(x, np.generic) for x in args):
                # torch takes some of numpy's scalars, and some not.
                func(*map(self._blank_copy, args), **kwargs)
            return self._special[bare](*args, **kwargs)
        if bare in _METADATA_FUNCTIONS:
            return func(*args, **kwargs)
        if bare in _COPY_FUNCTIONS:
            return self._copy(func, args, kwargs)
        if bare in _MOVE_FUNCTIONS:
            return self._move(func, args, kwargs, everything=bare in _JOIN_FUNCTIONS)
        base = bare.rstrip("_")
        if base in _WRITE_FUNCTIONS:
            written = self._written(func, base, args, kwargs)
            return self._filled(args[0], written) if in_place else written
        if base in _REVERSED_OPERATIONS and not kwargs:
            return self._elementwise(func, args, _REVERSED_OPERATIONS[base], (args[1], args[0]))
        ufunc = _ALIASES.get(base, base)
        if ufunc in _SHARED_NAMES and not (set(kwargs) - {"other", "exponent"}):
            inputs = (*args, *kwargs.values())
            result = self._elementwise(func, inputs, ufunc, inputs)
        elif base in self._special:
            result = self._special[base](*args, **kwargs)
        else:
            self._refuse(name)
        return self._filled(args[0], result) if in_place else result

    def _filled(self, tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return a tensor that was changed in place."""
        self.shadows.write(tensor, self.shadows.numbers(values))
        return tensor

    def into(self, result: Any, out: torch.Tensor) -> torch.Tensor:
        """Return ``out`` with a result in it, as a function of torch leaves it."""
        if result.shape != out.shape:
            self._refuse("out= of another shape")
        if not torch.can_cast(result.dtype, out.dtype):
            raise RuntimeError(
                f"result type {result.dtype} can't be cast to the desired output type {out.dtype}"
            )
        self.shadows.write(out, np.array(self.shadows.numbers(result), dtype=object))
        return out

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
            # An array that was made to hold draws, or that held some, may hold numbers alone.
            held = holds_objects(data) and data.dtype != object
            if nested and (held or self.shadows.is_symbolic(data)):
                return self._special[name](data, *args, **kwargs)
            objects = nested and holds_objects(data)  # made by numpy of decided tensors: numbers
            return original(np.asarray(simplify_array(data)) if objects else data, *args, **kwargs)

        return convert

    def _refuse(self, name: str) -> NoReturn:
        kind = FloatOfDraw if name == "__float__" else CannotEnumerate
        self.source.refuse(f"torch's {name} of a random tensor", kind)

    def _elementwise(self, func: Any, args: Any, name: str, inputs: tuple[Any, ...]) -> Any:
        """Compute as torch does: in the common type, 16 bits in float32 and rounded after."""
        of_result, kind = self._types(func, args, name, inputs)
        like = next(x for x in inputs if isinstance(x, torch.Tensor))
        self.source.meet(kind)
        if name in _COMPARISON_FUNCTIONS:
            pass
        elif kind in (torch.float16, torch.bfloat16):
            if name == "divide" and not isinstance(inputs[0], torch.Tensor):
                # torch multiplies by a reciprocal that it has rounded, on some processors.
                self._refuse("number divided by 16 bits")
            inputs = tuple(
                x if is_factor(name, place, x) else self._of_type(self.shadows.numbers(x), kind)
                for place, x in enumerate(inputs)
            )
            kind = torch.float32
        elif of_result.is_floating_point and not kind.is_floating_point:
            kind = torch.get_default_dtype()
        numbers = [self._of_type(self.shadows.numbers(x), kind) for x in inputs]
        if (rule := UFUNC_RULES.get(getattr(np, name))) is None:
            self._refuse(name)
        values = map_elements(rule, numbers)
        return self.shadows.tensor(values, of_result, like.device)

    def _types(
        self, func: Any, args: Any, name: str, inputs: tuple[Any, ...]
    ) -> tuple[torch.dtype, torch.dtype]:
        """Return the types of a result and of its computation: torch says them of blank copies."""
        looks = (func, name, *map(type_signature, args))
        if None not in looks and (known := self._known_types.get(looks)) is not None:
            return known
        result = func(*map(self._blank_copy, args)).dtype
        types = result, result_type([self._blank_copy(x) for x in inputs])
        if None not in looks:
            self._known_types[looks] = types
        return types

    def _of_type(self, x: Any, dtype: torch.dtype) -> Any:
        if not isinstance(x, np.ndarray):
            return as_element(x, dtype)
        flat = x.ravel().tolist() if holds_objects(x) else list(x.ravel())
        return array_of_objects([as_element(y, dtype) for y in flat]).reshape(x.shape)

    def _wrap(self, values: Any, inputs: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        if not tensors:
            self._refuse("function of a scalar")
        if dtype is None:
            dtype = result_type([self._blank_copy(x) for x in inputs])
        return self.shadows.tensor(values, dtype, tensors[0].device)

    def _copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        tensor = args[0]
        if not isinstance(result, torch.Tensor):
            self._refuse(getattr(func, "__name__", "conversion"))
        if result.data_ptr() == tensor.data_ptr():
            return result
        cast = as_draws(self._of_type(self._elements(tensor), result.dtype))
        return self.shadows.tensor(cast, result.dtype, result.device)

    def _move(
        self, func: Any, args: Any, kwargs: dict[str, Any], *, everything: bool = False
    ) -> Any:
        """Run the move; where it copied, run it on element numbers to see what went where."""
        if not everything:
            # What says where to move must be known.
            args = (args[0], *(self.shadows.decide(x, draws=True) for x in args[1:]))
            kwargs = {key: self.shadows.decide(x, draws=True) for key, x in kwargs.items()}
        result = func(*args, **kwargs)
        if not self.shadows.among((*args, *kwargs.values())):
            return result
        parts = [result] if isinstance(result, torch.Tensor) else list(result)
        if all(part.numel() == 0 or self.shadows.elements(part) is not None for part in parts):
            return result
        pool: list[Any] = []
        traced = func(
            *[self._numbered(x, pool, everything) for x in args],
            **{k: self._numbered(x, pool, everything) for k, x in kwargs.items()},
        )
        numbered = [traced] if isinstance(traced, torch.Tensor) else traced
        for part, index in zip(parts, numbered, strict=True):
            chosen = array_of_objects([pool[i] for i in index.reshape(-1).tolist()])
            self.shadows.write(part, chosen.reshape(tuple(part.shape)))
        return result

    def _written(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        """Return a copy of a tensor into which others are written: elements as numbers show how."""
        self._asked(func, *args, **kwargs)  # for what it raises
        tensor = args[0]
        if not tensor.is_floating_point():
            self._refuse(f"{name} of integers")  # which might be indices
        values = [*args[1:], *kwargs.values()]
        if name == "index_fill":
            named = dict(zip(("dim", "index", "value"), args[1:], strict=False)) | kwargs
            value = named["value"]
            if not isinstance(value, Draw | torch.Tensor):
                value = float(value)  # an integer is a value here
            args, kwargs, values = (tensor, named["dim"], named["index"], value), {}, [value]
        has_indices = name not in ("index_fill", "slice_scatter", "select_scatter")
        for x in values:
            other = isinstance(x, torch.Tensor) and x.dtype != tensor.dtype
            if other and not (has_indices and not x.is_floating_point()):
                self._refuse(f"{name} of values of another type")
        adds = (
            name in _ADD_FUNCTIONS or kwargs.get("accumulate") or any(x is True for x in args[3:4])
        )
        if kwargs.get("reduce") is not None or kwargs.get("alpha", 1) != 1:
            self._refuse(f"{name} that multiplies")
        pool = list(self.shadows.numbers(tensor).ravel().tolist())
        own = len(pool)
        places = torch.arange(own).reshape(tensor.shape)
        indices = self.shadows.decide(tuple(args[1:]), draws=True)
        given = [self._as_source(x, pool, tensor) for x in indices]
        options = {
            key: self._as_source(self.shadows.decide(x, draws=True), pool, tensor)
            for key, x in kwargs.items()
            if key not in ("accumulate", "alpha")
        }
        if adds and name in ("index_put", "put"):
            given = given[:2]
        write = getattr(torch.Tensor, _ADD_FUNCTIONS.get(name, name))
        whence = write(places, *given, **options)
        chosen = [x for x in whence.reshape(-1).tolist() if x >= own]
        once = name in ("index_fill", "masked_scatter", "slice_scatter", "select_scatter")
        if not once and (len(set(chosen)) < len(pool) - own):
            self._refuse(f"{name} of several elements to one place")
        kind = tensor.dtype
        new = []
        for place, x in enumerate(whence.reshape(-1).tolist()):
            element = as_element(pool[x], kind)
            if adds and x >= own:
                element = UFUNC_RULES[np.add](as_element(pool[place], kind), element)
            new.append(element)
        written = array_of_objects(new).reshape(tuple(tensor.shape))
        return self.shadows.tensor(written, kind, tensor.device)

    def _as_source(self, x: Any, pool: list[Any], like: torch.Tensor) -> Any:
        """Return the numbers of the elements that are written; anything else as it is."""
        if isinstance(x, Draw) or type(x) is float:
            pool.append(x)
            return len(pool) - 1
        if not isinstance(x, torch.Tensor) or x.dtype != like.dtype:
            return x
        first = len(pool)
        pool.extend(np.asarray(self.shadows.numbers(x)).ravel().tolist())
        return torch.arange(first, len(pool)).reshape(x.shape)

    def _numbered(self, x: Any, pool: list[Any], everything: bool) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(self._numbered(y, pool, everything) for y in x)
        # Integers and booleans are indices and masks, unless tensors are being joined.
        pooled = isinstance(x, torch.Tensor) and (everything or x.is_floating_point())
        if not pooled and not (isinstance(x, torch.Tensor) and self.shadows.is_symbolic(x)):
            return x
        first = len(pool)
        pool.extend(np.asarray(self.shadows.numbers(x)).ravel().tolist())
        return torch.arange(first, len(pool)).reshape(x.shape)

    # -- functions with rules of their own; the name after ``_on_`` is torch's --

    def _on_scatter(
        self,
        tensor: torch.Tensor,
        dim: int,
        index: Any,
        src: Any = None,
        *,
        value: Any = None,
        reduce: Any = None,
    ) -> torch.Tensor:
        if reduce is not None:
            self._refuse("scatter that adds up")
        index, given = self.shadows.decide(index, draws=True), value if src is None else src
        self._asked(torch.scatter, tensor, dim, index, given)  # for what it raises
        # torch is asked where each element comes from: numbers in the place of elements.
        places = torch.arange(tensor.numel()).reshape(tensor.shape)
        put: Any = tensor.numel()
        if isinstance(given, torch.Tensor):
            times = torch.zeros_like(places).scatter_add(dim, index, torch.ones_like(index))
            if bool((times > 1).any()):
                self._refuse("scatter of several elements to one place")
            put = put + torch.arange(given.numel()).reshape(given.shape)
        whence = torch.scatter(places, dim, index, put).numpy()
        new = np.asarray(self._of_type(self.shadows.numbers(given), tensor.dtype), dtype=object)
        whole = [*self.shadows.numbers(tensor).ravel().tolist(), *new.ravel().tolist()]
        values = array_of_objects([whole[place] for place in whence.ravel()]).reshape(whence.shape)
        return self.shadows.tensor(values, tensor.dtype, tensor.device)

    def _on_scatter_(
        self, tensor: torch.Tensor, dim: int, index: Any, *args: Any, **kwargs: Any
    ) -> Any:
        index = self.shadows.decide(index, draws=True)
        if not any(map(self.shadows.is_symbolic, (tensor, *args, *kwargs.values()))):
            return tensor.scatter_(dim, index, *args, **kwargs)
        whole = self._on_scatter(tensor, dim, index, *args, **kwargs)
        self.shadows.write(tensor, self.shadows.numbers(whole))
        return tensor

    def _on_where(self, condition: Any, *values: Any, **kwargs: Any) -> Any:
        condition = self.shadows.decide(condition)
        if len(values) != 2 or kwargs or self.shadows.is_symbolic(condition):
            self._refuse("where")
        return self._chosen((condition, *values), values)

    def _on_masked_fill(self, tensor: torch.Tensor, mask: Any, value: Any) -> Any:
        self._asked(torch.masked_fill, tensor, mask, value)
        return self._chosen((mask, value, tensor), (tensor,))

    def _chosen(self, parts: tuple[Any, ...], like: tuple[Any, ...]) -> torch.Tensor:
        """Return the second part where the first holds, and the third elsewhere."""
        arrays = [self.shadows.numbers(x) for x in parts]
        return self._wrap(map_elements(lambda c, x, y: x if c else y, arrays), like)

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
                values = map_elements(UFUNC_RULES[ufunc], [values, bounds])
        return self._wrap(values, (tensor,), kind)

    _on_clip = _on_clamp

    def _on_clamp_min(self, tensor: torch.Tensor, min: Any) -> Any:  # noqa: A002
        return self._on_clamp(tensor, min)

    def _on_clamp_max(self, tensor: torch.Tensor, max: Any) -> Any:  # noqa: A002
        return self._on_clamp(tensor, None, max)

    def _along(self, tensor: Any, dim: Any, keepdim: bool, what: str, kind: Any = None) -> Any:
        elements = self._elements(tensor)
        array = as_draws(elements if kind is None else self._of_type(elements, kind))
        where = {} if dim is None else {"axis": dim, "keepdims": keepdim}
        return getattr(np, what)(array, **where)

    def _elements(self, tensor: torch.Tensor) -> Any:
        elements = self.shadows.elements(tensor)
        assert elements is not None
        return elements

    def _added(self, what: str, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        inside, kind = _sum_dtypes(tensor)
        return self._wrap(self._along(tensor, dim, keepdim, what, inside), (tensor,), kind)

    _on_sum, _on_prod = partialmethod(_added, "sum"), partialmethod(_added, "prod")

    def _running(self, what: Callable[..., Any], tensor: Any, dim: int) -> Any:
        inside, kind = _sum_dtypes(tensor)
        array = as_draws(self._of_type(self._elements(tensor), inside))
        return self._wrap(what(array, axis=dim), (tensor,), kind)

    _on_cumsum = partialmethod(_running, np.cumsum)
    _on_cumprod = partialmethod(_running, np.cumprod)

    def _index(self, what: str, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        values = self._along(tensor, dim, keepdim, what)
        return self.shadows.tensor(values, torch.int64, tensor.device)

    _on_argmax, _on_argmin = partialmethod(_index, "argmax"), partialmethod(_index, "argmin")

    def _extreme(self, name: str, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, torch.Tensor):
            pair, name = (tensor, dim), f"{name}imum"
            return self._elementwise(getattr(torch, name), pair, name, pair)
        if dim is None:
            return self._wrap(self._along(tensor, None, False, name), (tensor,))
        array = as_draws(self._elements(tensor))
        index = resolve_winners(getattr(np, f"arg{name}")(array, axis=dim, keepdims=True))
        values = np.take_along_axis(array.view(np.ndarray), index, axis=dim)
        if not keepdim:
            values, index = values.squeeze(dim), index.squeeze(dim)
        pair = (self._wrap(simplify_array(values), (tensor,)), torch.as_tensor(index))
        return getattr(torch.return_types, name)(pair)

    _on_max, _on_min = partialmethod(_extreme, "max"), partialmethod(_extreme, "min")

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
        if any(
            x == y
            for lane in lanes.reshape(-1, lanes.shape[-1]).tolist()
            for x, y in pairwise(lane[: k + 1])
        ):
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
        kind = result_type([self._blank_copy(x) for x in (sorted_sequence, values)])
        self.source.meet(kind)
        pair = map(self.shadows.numbers, (sorted_sequence, values))
        cells, keys = (self._of_type(x, kind) for x in pair)
        return torch.as_tensor(np.asarray(sorted_positions(cells, keys, side)))

    def _on_bucketize(self, values: Any, boundaries: Any, *, right: bool = False) -> Any:
        return self._on_searchsorted(boundaries, values, right=right)

    def _on_as_tensor(self, data: Any, dtype: Any = None, device: Any = None, **kw: Any) -> Any:
        shared = self.shadows.shared(data, dtype, device, **kw)
        return self._on_tensor(data, dtype, device) if shared is None else shared

    def _on_tensor(self, data: Any, dtype: Any = None, device: Any = None, **kw: Any) -> Any:
        del kw
        array = isinstance(data, np.ndarray)
        if isinstance(data, torch.Tensor):
            values, natural = self._elements(data), data.dtype
        else:
            # Out of nested lists numpy would take the draws alone.
            nested = isinstance(data, list | tuple)
            values = nested_object_array(data) if nested else as_objects(data)
            sample = common_type(values.ravel().tolist())
            natural = _REAL_TENSOR(np.zeros(1, data.dtype if array else sample)).dtype
            if natural is torch.float64 and not array:
                # Numbers of Python's, and numpy's in lists, become the default.
                natural = torch.get_default_dtype()
        place = torch.device(device or "cpu")
        return self.shadows.tensor(as_draws(values), dtype or natural, place)

    def _on_item(self, tensor: torch.Tensor) -> Any:
        if tensor.numel() != 1:
            raise RuntimeError("a Tensor with more than one element cannot be converted to Scalar")
        return as_python_value(resolve_winners(self._elements(tensor).ravel()[0]))

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
        values = np.broadcast_to(self.shadows.numbers(other), tuple(tensor.shape))
        self.shadows.write(tensor, values.copy())
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


def _sum_dtypes(tensor: torch.Tensor) -> tuple[torch.dtype, torch.dtype]:
    """Return the types in which torch adds up, and that of what it gives."""
    if not tensor.dtype.is_floating_point:
        return torch.int64, torch.int64
    coarse = tensor.dtype in (torch.float16, torch.bfloat16)
    return (torch.float32 if coarse else tensor.dtype), tensor.dtype


def _numpy_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_numpy_index(i) for i in index)
    return index.numpy() if isinstance(index, torch.Tensor) else index

"""What torch's functions do to symbolic tensors."""

import operator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from simverify.symbolic.draws.in_arrays.arrays import draw_array, holds_objects, of_objects, settle
from simverify.symbolic.draws.in_arrays.elementwise import map_elements
from simverify.symbolic.draws.in_arrays.ufuncs import UFUNCS
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import CannotEnumerate, FloatOfDraw
from simverify.symbolic.generators.torch.shadow import Shadows, element_of
from simverify.symbolic.generators.torch.special import TorchSpecial
from simverify.symbolic.generators.torch.types import common_type, is_factor, look

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
    "adjoint", "fliplr", "flipud", "atleast_3d", "column_stack", "row_stack", "dstack", "hsplit",
    "vsplit", "dsplit", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes",
    "unsafe_chunk", "unfold", "rot90", "cartesian_prod",
}  # fmt: skip
_JOINS = {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack", "row_stack",
    "dstack", "cartesian_prod",
}  # fmt: skip
_COPIES = {
    "to", "float", "double", "half", "bfloat16", "type", "type_as", "clone", "detach",
    "contiguous", "cpu", "cuda", "detach_", "long", "int", "short", "bool",
}  # fmt: skip
_PLAIN = {
    "get", "size", "dim", "numel", "nelement", "ndimension", "stride", "is_contiguous",
    "element_size", "len", "storage_offset", "is_floating_point", "is_complex", "get_device",
    "repr", "hash", "requires_grad_", "untyped_storage", "is_same_size", "is_signed",
    "broadcast_tensors", "meshgrid",
}  # fmt: skip
_IN_PLACE = {"iadd", "isub", "imul", "itruediv", "idiv"}
_COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
_CARRIES = _MOVES | _COPIES | _PLAIN | {
    "where", "setitem", "masked_fill", "scatter", "copy_", "fill_", "zero_", "data_ptr", "item",
    "tolist", "numpy", "array", "tensor", "as_tensor", "asarray", "from_numpy",
}  # fmt: skip
"""What leaves the winners of races unread."""


class TorchOps(TorchSpecial):
    """Runs one torch function on arguments of which at least one is symbolic."""

    def __init__(self, source: Source, shadows: Shadows) -> None:
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
        if "out" in kwargs:
            self._refuse(f"{name}(out=)")
        if name in ("__int__", "__index__"):
            number = self._on_item(*args)
            if name == "__index__":
                return operator.index(number)
            return number.__int__() if isinstance(number, Draw) else int(number)
        if name in ("__float__", "__complex__", "__format__"):
            self._refuse(name)
        if name == "__bool__":
            return bool(self._on_item(*args))
        if bare not in _CARRIES and bare.rstrip("_") not in _CARRIES:
            given, args = args, self.shadows.decide(tuple(args))
            kwargs = {key: self.shadows.decide(x) for key, x in kwargs.items()}
            if not self.shadows.among((*args, *kwargs.values())):
                return self._of_numbers(func, given, args, kwargs)
        in_place = bare.endswith("_") or bare in _IN_PLACE
        if in_place:
            self._asked(func, *args, **kwargs)
        if bare in self._special:
            if any(isinstance(x, np.generic) for x in args):
                # torch takes some of numpy's scalars, and some not.
                func(*map(self._blank_copy, args), **kwargs)
            return self._special[bare](*args, **kwargs)
        if bare in _PLAIN:
            return func(*args, **kwargs)
        if bare in _COPIES:
            return self._copy(func, args, kwargs)
        if bare in _MOVES:
            return self._move(func, args, kwargs, everything=bare in _JOINS)
        base = bare.rstrip("_")
        if base in _REVERSED and not kwargs:
            return self._elementwise(func, args, _REVERSED[base], (args[1], args[0]))
        ufunc = _ALIASES.get(base, base)
        if ufunc in _SAME_NAME and not (set(kwargs) - {"other", "exponent"}):
            inputs = (*args, *kwargs.values())
            result = self._elementwise(func, inputs, ufunc, inputs)
        elif base in self._special:
            result = self._special[base](*args, **kwargs)
        else:
            self._refuse(name)
        if in_place:
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
            # An array that was made to hold draws, or that held some, may hold numbers alone.
            held = holds_objects(data) and data.dtype != object
            if nested and (held or self.shadows.is_symbolic(data)):
                return self._special[name](data, *args, **kwargs)
            objects = nested and holds_objects(data)  # made by numpy of decided tensors: numbers
            return original(np.asarray(settle(data)) if objects else data, *args, **kwargs)

        return convert

    def _refuse(self, name: str) -> NoReturn:
        kind = FloatOfDraw if name == "__float__" else CannotEnumerate
        self.source.refuse(f"torch's {name} of a random tensor", kind)

    def _elementwise(self, func: Any, args: Any, name: str, inputs: tuple[Any, ...]) -> Any:
        """Compute as torch does: in the common type, 16 bits in float32 and rounded after."""
        of_result, kind = self._types(func, args, name, inputs)
        like = next(x for x in inputs if isinstance(x, torch.Tensor))
        self.source.meet(kind)
        if name in _COMPARISONS:
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
        if (rule := UFUNCS.get(getattr(np, name))) is None:
            self._refuse(name)
        values = map_elements(rule, numbers)
        return self.shadows.tensor(values, of_result, like.device)

    def _in_common_type(self, *inputs: Any) -> list[Any]:
        """Return tensors as arrays of objects, all of the type that torch makes of theirs."""
        kind = common_type([self._blank_copy(x) for x in inputs])
        self.source.meet(kind)
        return [self._of_type(self.shadows.numbers(x), kind) for x in inputs]

    def _types(
        self, func: Any, args: Any, name: str, inputs: tuple[Any, ...]
    ) -> tuple[torch.dtype, torch.dtype]:
        """Return the type of a result, and the one that torch computes in.

        The elements are blank, but type and shape, and what torch refuses, are real. Of floats
        they depend on no value, so torch is asked once.
        """
        looks = (func, name, *map(look, args))
        if None not in looks and (known := self._known_types.get(looks)) is not None:
            return known
        result = func(*map(self._blank_copy, args)).dtype
        types = result, common_type([self._blank_copy(x) for x in inputs])
        if None not in looks:
            self._known_types[looks] = types
        return types

    def _of_type(self, x: Any, dtype: torch.dtype) -> Any:
        if not isinstance(x, np.ndarray):
            return element_of(x, dtype)
        flat = x.ravel().tolist() if holds_objects(x) else list(x.ravel())
        return of_objects([element_of(y, dtype) for y in flat]).reshape(x.shape)

    def _wrap(self, values: Any, inputs: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        if not tensors:
            self._refuse("function of a scalar")
        if dtype is None:
            dtype = common_type([self._blank_copy(x) for x in inputs])
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
        cast = [element_of(x, result.dtype) for x in elements.ravel().tolist()]
        return self.shadows.tensor(draw_array(cast, elements.shape), result.dtype, result.device)

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
        for part, index in zip(
            parts, [traced] if isinstance(traced, torch.Tensor) else traced, strict=True
        ):
            chosen = of_objects([pool[i] for i in index.reshape(-1).tolist()])
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

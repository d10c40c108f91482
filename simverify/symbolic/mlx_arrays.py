"""MLX's arrays with symbolic elements, and its functions of them.

An array that holds draws is a :class:`DrawnArray`; every other one stays MLX's own. What type and
shape a function gives, and what it refuses, MLX says itself, of ones in the place of draws, which
it never computes. Functions that move elements are run on the numbers of the elements.
"""

# ruff: noqa: D102 - methods are documented in the library that they stand for

__simverify_role__ = "stand-in"


import operator
from collections.abc import Callable
from functools import partial, partialmethod
from types import SimpleNamespace
from typing import Any, NoReturn

import mlx.core as mx
import numpy as np

from simverify.symbolic.array_functions import sorted_positions
from simverify.symbolic.arrays import (
    UFUNC_RULES,
    DrawArray,
    Winner,
    array_of_objects,
    as_objects,
    as_python_value,
    common_type,
    element_list,
    holds_objects,
    make_draw_array,
    map_elements,
    resolve_winners,
    sample_of,
    settle_draws,
)
from simverify.symbolic.builtins_patched import TypeTwinMeta
from simverify.symbolic.forms import BFloat16, to_bfloat16
from simverify.symbolic.integers import MixedInteger
from simverify.symbolic.keys import KeyWord
from simverify.symbolic.promotion import PROMOTED_TYPES, Float64Promotion
from simverify.symbolic.provenance import STALE_ARRAY, FloatOfDraw, name_pairs, names
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import SYMBOLIC_CALL_COST, RandomSource

Elements = np.ndarray[Any, Any]

RealArray: Any = mx.array

_NUMPY_TYPES: dict[Any, Any] = {
    **{
        getattr(mx, name): getattr(np, name)
        for name in names(
            "float64 float32 float16 int64 int32 int16 int8 uint8 uint16 uint32 uint64"
        )
    },
    mx.bool_: np.bool_,
    mx.bfloat16: BFloat16,
}
_HALF_TYPES = (mx.float16, mx.bfloat16)
_FLOATS = (mx.float64, mx.float32, *_HALF_TYPES)

_UFUNCS = names(
    "absolute positive add subtract multiply divide power maximum minimum remainder floor_divide "
    "exp log log1p log2 log10 expm1 sqrt square reciprocal negative sign floor ceil trunc isnan "
    "isinf isfinite logical_not logical_and logical_or less less_equal greater greater_equal equal "
    "not_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift"
)
_ALIASES = name_pairs(
    "pow:power abs:absolute __abs__:absolute __neg__:negative __pos__:positive __add__:add "
    "__iadd__:add __sub__:subtract __isub__:subtract __mul__:multiply __imul__:multiply "
    "__truediv__:divide __itruediv__:divide __div__:divide __floordiv__:floor_divide "
    "__ifloordiv__:floor_divide __mod__:remainder __imod__:remainder __pow__:power __ipow__:power "
    "__lt__:less __le__:less_equal __gt__:greater __ge__:greater_equal __eq__:equal "
    "__ne__:not_equal __and__:bitwise_and __iand__:bitwise_and __or__:bitwise_or "
    "__ior__:bitwise_or __xor__:bitwise_xor __ixor__:bitwise_xor __lshift__:left_shift "
    "__ilshift__:left_shift __rshift__:right_shift __irshift__:right_shift "
    "__invert__:logical_not bitwise_invert:logical_not"
)
_REVERSED = name_pairs(
    "__radd__:add __rsub__:subtract __rmul__:multiply __rtruediv__:divide __rdiv__:divide "
    "__rfloordiv__:floor_divide __rmod__:remainder __rpow__:power"
)
_TRUTH_OF_BITS = name_pairs("bitwise_and:logical_and bitwise_or:logical_or bitwise_xor:not_equal")
_IN_PLACE = names(
    "__setitem__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ "
    "__ior__ __ixor__ __ilshift__ __irshift__ __imatmul__"
)
_COMPARISONS = names("less less_equal greater greater_equal equal not_equal")
_TRUTHS = names("logical_not logical_and logical_or")

_MOVES: dict[str, tuple[int | str, ...]] = {
    **dict.fromkeys(
        names(
            "reshape flatten unflatten squeeze expand_dims transpose permute_dims swapaxes "
            "moveaxis broadcast_to broadcast_arrays concatenate concat stack split unstack repeat "
            "tile roll flip diag diagonal tril triu atleast_1d atleast_2d atleast_3d contiguous "
            "as_strided take take_along_axis __getitem__ slice meshgrid matrix_transpose "
            "stop_gradient copy __copy__ __deepcopy__"
        ),
        (0,),
    ),
    "pad": (0, 3, "constant_values"),
    "where": (1, 2, "x", "y"),
    "put_along_axis": (0, 2, "values"),
    "slice_update": (0, 1, "update"),
    "__setitem__": (0, 2),
}
"""What only moves elements, by name, and which arguments hold them; the others say where."""

_MANY_ARRAYS = names("broadcast_arrays meshgrid atleast_1d atleast_2d atleast_3d")
"""All of whose arguments hold elements."""

_DESCRIPTIONS = names("ndim shape size dtype itemsize nbytes")
_NOT_ARRAYS = {type(None), bool, int, float, str, mx.Dtype, type(...)}

WATCHED_METHODS = tuple(
    name
    for name in dir(mx.array)
    if name not in (*_DESCRIPTIONS, "T", "mT", "at", "real", "imag")
    and name
    not in names(
        "__class__ __delattr__ __dir__ __doc__ __getattribute__ __getstate__ __hash__ __init__ "
        "__init_subclass__ __module__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ "
        "__setstate__ __sizeof__ __str__ __subclasshook__ __array_namespace__ __dlpack__ "
        "__dlpack_device__"
    )
)
"""Methods of MLX's own arrays that may be given a draw."""

WATCHED_FUNCTIONS = tuple(
    name
    for name, value in vars(mx).items()
    if type(value).__name__ in ("nb_func", "builtin_function_or_method")
    and name
    not in names(
        "eval async_eval compile vmap grad value_and_grad vjp jvp checkpoint disable_compile "
        "enable_compile synchronize device_count device_info default_device default_stream "
        "set_default_device set_default_stream stream new_stream clear_cache finfo iinfo "
        "issubdtype isdtype can_cast export_function import_function exporter custom_function"
    )
)


REAL: Any = SimpleNamespace(**{name: getattr(mx, name) for name in WATCHED_FUNCTIONS})
REAL_METHODS: dict[str, Any] = {name: getattr(mx.array, name) for name in WATCHED_METHODS}
"""MLX's functions, and methods of its arrays, whose names are replaced while code is followed."""

_item, _set_item = REAL_METHODS["__getitem__"], REAL_METHODS["__setitem__"]


class _ArrayMeta(TypeTwinMeta):
    """The type of arrays, as code has it: it makes arrays, and knows them."""

    makes: Any
    ops: "MlxOps | None"

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        ops = cls.ops
        return RealArray(*args, **kwargs) if ops is None else ops.array(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:  # noqa: N805
        return getattr(RealArray, name)


class DrawnArray(metaclass=_ArrayMeta):
    """An array of MLX's that code made while it was followed.

    ``known``: the array itself, where no element is a draw; else None. ``blank``: an array of this
    type and shape, for which MLX is asked; ``elements``: objects, of that shape.
    """

    makes = RealArray
    ops: "MlxOps | None" = None
    known: Any
    blank: Any
    elements: Any

    # Code may ask for its type.
    __class__ = property(lambda self: RealArray)
    __hash__ = object.__hash__

    @staticmethod
    def of(elements: Elements, dtype: Any) -> "DrawnArray":
        made: DrawnArray = object.__new__(DrawnArray)
        made.known, made.elements = None, elements
        made.blank = REAL.ones(elements.shape, dtype=dtype)
        return made

    @staticmethod
    def of_known(array: Any) -> "DrawnArray":
        made: DrawnArray = object.__new__(DrawnArray)
        made.known = made.blank = array
        made.elements = None
        return made

    def become(self, other: "DrawnArray") -> "DrawnArray":
        """Hold from now on what another array holds."""
        self.known, self.blank, self.elements = other.known, other.blank, other.elements
        return self

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        del kwargs
        numbers = self.numbers()
        return numbers if not args or args[0] is None else numbers.astype(args[0])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [x.numbers() if type(x) is DrawnArray else x for x in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __complex__(self) -> complex:
        # Asked for by a function of MLX's alone whose name was not replaced.
        return self._ops.refuse("a function that is held in a container")

    def numbers(self) -> Any:
        """Return the elements as numpy has them, plain where nothing in them is a draw."""
        if self.known is not None:
            return np.array(self.known)
        if self.blank.dtype == mx.bfloat16:
            self._ops.refuse("an array of bfloat16 as numpy's")
        flat = list(map(self._ops.word, self.elements.ravel().tolist()))
        return make_draw_array(flat, self.elements.shape, np.dtype(_NUMPY_TYPES[self.blank.dtype]))

    @property
    def _ops(self) -> "MlxOps":
        if DrawnArray.ops is None:
            raise RuntimeError(STALE_ARRAY)
        return DrawnArray.ops

    @property
    def at(self) -> Any:
        return _At(self)

    @property
    def T(self) -> Any:  # noqa: N802
        return self._ops.call("transpose", self)

    @property
    def mT(self) -> Any:  # noqa: N802
        return self._ops.call("matrix_transpose", self)

    @property
    def real(self) -> Any:
        return self._ops.call("real", self)

    @property
    def imag(self) -> Any:
        return self._ops.call("imag", self)

    def __len__(self) -> int:
        return len(self.blank)

    def __iter__(self) -> Any:
        return iter([self._ops.call("take", self, i, axis=0) for i in range(len(self))])

    def __repr__(self) -> str:
        shown = self.known
        return repr(shown) if shown is not None else f"array({self.elements.tolist()!r})"

    def __getattr__(self, name: str) -> Any:
        if not hasattr(RealArray, name):
            raise AttributeError(f"'mlx.core.array' object has no attribute '{name}'")
        return partial(_call_method, name, self)


def _call_method(name: str, array: DrawnArray, *args: Any, **kwargs: Any) -> Any:
    if DrawnArray.ops is None and array.known is not None:
        return getattr(array.known, name)(*args, **kwargs)
    return array._ops.dispatch(name, REAL_METHODS[name], (array, *args), kwargs)


def _method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: _call_method(name, self, *args, **kwargs)


def _description(name: str) -> property:
    return property(lambda self: getattr(self.blank, name))


for _name in WATCHED_METHODS:
    if _name.startswith("__") and _name not in vars(DrawnArray):
        setattr(DrawnArray, _name, _method(_name))
for _name in _DESCRIPTIONS:
    setattr(DrawnArray, _name, _description(_name))


class _At:
    """What ``array.at`` is: places that are written, one after the other where they are equal."""

    def __init__(self, array: DrawnArray, index: Any = None) -> None:
        self._array, self._index = array, index

    def __getitem__(self, index: Any) -> "_At":
        return _At(self._array, index)

    def _apply(self, name: str, value: Any) -> Any:
        return self._array._ops.updated(name, self._array, self._index, value)


for _name in names("add subtract multiply divide maximum minimum"):
    setattr(_At, _name, partialmethod(_At._apply, _name))


class MlxOps:
    """Runs MLX's functions, also on draws. ``lift``: types that count as float64."""

    def __init__(self, source: RandomSource, lift: Float64Promotion | None) -> None:
        self.source = source
        wanted = PROMOTED_TYPES[lift] if lift else ()
        self.lifted = {getattr(mx, x) for x in wanted if isinstance(getattr(mx, x, None), mx.Dtype)}
        self._special: dict[str, Callable[..., Any]] = {
            name.removeprefix("_on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_on_")
        }

    # -- what is symbolic --

    def is_symbolic(self, x: Any) -> bool:
        """Whether an argument is or contains a draw, or an array with one."""
        kind = type(x)
        if kind in _NOT_ARRAYS or kind is RealArray:
            return False
        if kind is DrawnArray:
            return x.known is None
        if isinstance(x, list | tuple):
            return any(map(self.is_symbolic, x))
        if kind is slice:
            return any(map(self.is_symbolic, (x.start, x.stop, x.step)))
        if isinstance(x, dict):
            return any(map(self.is_symbolic, x.values()))
        return isinstance(x, Draw | Winner | MixedInteger) or type(x) is DrawArray

    def watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands for a function or method of MLX's."""
        return lambda *args, **kwargs: self.dispatch(name, original, args, kwargs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function of MLX's by name, on arrays and draws."""
        return self.dispatch(name, getattr(REAL, name), args, kwargs)

    def dispatch(self, name: str, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Let MLX compute what holds no draws; see :meth:`run` for the rest."""
        if self.lifted:
            args, kwargs = self._lift(args), self._lift(kwargs)
        if any(map(self.is_symbolic, args)) or any(map(self.is_symbolic, kwargs.values())):
            made = self.run(name, func, args, kwargs)
            if name in _IN_PLACE:
                if type(args[0]) is not DrawnArray:
                    self.source.refuse("draws in an array of MLX's from outside the call")
                return args[0].become(made)
            return made
        self.source.torch_calls += 1
        made = func(*map(known_of, args), **{key: known_of(x) for key, x in kwargs.items()})
        if name in _IN_PLACE:
            return args[0]
        return self.followed(self._lift(made) if self.lifted else made)

    def followed(self, x: Any) -> Any:
        """Return arrays that MLX made as those of code that is followed."""
        if type(x) is RealArray:
            return DrawnArray.of_known(x)
        return type(x)(map(self.followed, x)) if type(x) in (list, tuple) else x

    def _lift(self, x: Any) -> Any:
        if isinstance(x, mx.Dtype):
            return mx.float64 if x in self.lifted else x
        if type(x) is RealArray:
            return REAL_METHODS["astype"](x, mx.float64) if x.dtype in self.lifted else x
        if type(x) in (list, tuple):
            return type(x)(map(self._lift, x))
        return {key: self._lift(y) for key, y in x.items()} if type(x) is dict else x

    def refuse(self, call: str) -> NoReturn:
        self.source.refuse(f"MLX's {call} of draws")

    # -- elements --

    def numbers(self, x: Any) -> Any:
        """Read an argument as numbers and objects; a scalar as it is."""
        if type(x) is DrawnArray:
            if x.known is None:
                return x.elements
            x = x.known
        if type(x) is RealArray:
            self.source.meet(dtype_name(x.dtype))
            return _as_numpy(x)
        return as_objects(x) if isinstance(x, np.ndarray | list | tuple) else x

    def elements(self, x: Any) -> Elements:
        """Read an argument as an array of objects, its winners read."""
        return as_objects(resolve_winners(self.numbers(x)))

    def word(self, x: Any) -> Any:
        """Return an element as a number: a word of a key of constants."""
        if not isinstance(x, KeyWord):
            return x
        if x.key.data is None:
            self.refuse("words of keys as numbers")
        return np.uint32(x.key.data[x.index])

    def made(self, values: Any, dtype: Any) -> DrawnArray:
        """Return an array of these elements."""
        array = as_objects(values)
        dtype = mx.float64 if dtype in self.lifted else dtype
        flat = [as_element(x, dtype) for x in element_list(array)]
        if any(isinstance(x, Draw | Winner | KeyWord) for x in flat):
            return DrawnArray.of(array_of_objects(flat).reshape(array.shape), dtype)
        plain = [float(x) if type(x) is BFloat16 else x.item() for x in flat]
        return DrawnArray.of_known(REAL.reshape(RealArray(plain, dtype=dtype), array.shape))

    def asked(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what MLX gives of ones in the place of draws, never computed, or raises."""
        plain = {key: self._blank(x) for key, x in kwargs.items()}
        return func(*map(self._blank, args), **plain)

    def _blank(self, x: Any) -> Any:
        if type(x) is DrawnArray:
            return x.blank
        if isinstance(x, Draw | Winner):
            sample = sample_of(x.as_python() if isinstance(x, Draw) else x)
            return sample.item() if isinstance(sample, np.generic) else sample
        if type(x) is DrawArray:
            return np.ones(x.shape, x.dtype)
        return type(x)(map(self._blank, x)) if type(x) in (list, tuple) else x

    def decide(self, x: Any) -> Any:
        """Return an argument that has to be known: its winners read, its whole draws settled."""
        if type(x) is slice:
            return slice(*map(self.decide, (x.start, x.stop, x.step)))
        if type(x) is DrawnArray:
            if x.known is not None:
                return x.known
            settled = np.asarray(settle_draws(x.numbers(), "an index"))
            return REAL.astype(RealArray(settled), x.blank.dtype)
        if type(x) in (list, tuple):
            return type(x)(map(self.decide, x))
        if isinstance(x, Draw | Winner | MixedInteger):
            return operator.index(x)
        return settle_draws(x, "an index") if type(x) is DrawArray else x

    # -- functions --

    def run(self, name: str, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Return ``func(*args, **kwargs)`` of draws, or refuse it by name."""
        self.source.torch_calls += SYMBOLIC_CALL_COST
        kwargs = {key: x for key, x in kwargs.items() if key != "stream"}
        if name in self._special:
            return self._special[name](*args, **kwargs)
        if name in _REVERSED:
            return self._elementwise(func, args, _REVERSED[name], args[::-1])
        ufunc = _ALIASES.get(name, name)
        if ufunc in _UFUNCS:
            of_truths = ufunc in _TRUTH_OF_BITS and self.asked(func, *args).dtype == mx.bool_
            ufunc = _TRUTH_OF_BITS[ufunc] if of_truths else ufunc
            return self._elementwise(func, (*args, *kwargs.values()), ufunc, args)
        if name in _MOVES:
            return self._moved(name, func, args, kwargs)
        return self.refuse(name.strip("_"))

    def _elementwise(self, func: Any, args: Any, name: str, inputs: Any) -> Any:
        """Compute as MLX does: in the type of the result, 16 bits in float32 and rounded after."""
        if name in ("equal", "not_equal") and not all(map(self._is_comparable, inputs)):
            return name == "not_equal"
        of_result = kind = self.asked(func, *args).dtype
        if name in _COMPARISONS:
            kind = self._common_type(*inputs)
        numbers = [resolve_winners(self._without_words(self.numbers(x))) for x in inputs]
        if name not in _TRUTHS:
            self.source.meet(dtype_name(kind))
            numbers = [self._of_type(x, kind) for x in numbers]
            if kind in _HALF_TYPES and name not in _COMPARISONS:
                numbers = [self._of_type(x, mx.float32) for x in numbers]
        return self.made(map_elements(UFUNC_RULES[getattr(np, name)], numbers), of_result)

    def _common_type(self, *inputs: Any) -> Any:
        """Return the type in which MLX compares arrays and numbers."""
        scalars = [x.reshape(-1)[:1] if isinstance(x, np.ndarray) else x for x in inputs]
        arrays = (RealArray, DrawnArray)
        ones = [REAL.ones(1, dtype=x.dtype) if type(x) in arrays else x for x in scalars]
        return self.asked(REAL.maximum, *ones).dtype

    def _without_words(self, x: Any) -> Any:
        """Return elements with the words of constant keys as numbers; refuses those of others."""
        if not holds_objects(x) or not any(isinstance(y, KeyWord) for y in x.ravel().tolist()):
            return x
        return array_of_objects(list(map(self.word, x.ravel().tolist()))).reshape(x.shape)

    def _is_comparable(self, x: Any) -> bool:
        arrays = (float, int, bool, RealArray, DrawnArray, np.ndarray)
        return type(x) in arrays or isinstance(x, np.generic) or self.is_symbolic(x)

    def _of_type(self, x: Any, dtype: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return as_element(x, dtype)
        return array_of_objects([as_element(y, dtype) for y in element_list(x)]).reshape(x.shape)

    def _moved(self, name: str, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a function on the numbers of elements, to see what goes where."""
        held = range(len(args)) if name in _MANY_ARRAYS else _MOVES[name]
        args = [x if i in held else self.decide(x) for i, x in enumerate(args)]
        kwargs = {key: x if key in held else self.decide(x) for key, x in kwargs.items()}
        given = self.asked(func, *args, **kwargs)
        pool: list[Any] = [0.0]  # 0 stands for what the function itself puts in
        numbered = [self._numbered(x, pool) if i in held else x for i, x in enumerate(args)]
        named = {key: self._numbered(x, pool) if key in held else x for key, x in kwargs.items()}
        places = func(*numbered, **named)
        if isinstance(given, list | tuple):
            return type(given)(map(partial(self._gathered, pool), places, given))
        return self._gathered(pool, places, given)

    def _gathered(self, pool: list[Any], places: Any, given: Any) -> DrawnArray:
        chosen = [pool[i] for i in np.array(places).ravel().tolist()]
        return self.made(array_of_objects(chosen).reshape(given.shape), given.dtype)

    def _numbered(self, x: Any, pool: list[Any]) -> Any:
        """Return an array of integers in the place of elements, which ``pool`` takes up."""
        if isinstance(x, list | tuple):
            return type(x)(self._numbered(y, pool) for y in x)
        elements = as_objects(self.numbers(x))
        first = len(pool)
        pool.extend(element_list(elements))
        numbers = REAL.arange(first, len(pool), dtype=mx.int32)
        return REAL.reshape(numbers, elements.shape)

    def updated(self, name: str, array: Any, index: Any, value: Any) -> DrawnArray:
        """Return an array with its elements at ``index`` combined with values, as ``array.at``."""
        before = as_objects(self.numbers(array))
        elements = element_list(before)
        places = np.array(_item(self._numbered(array, []), self.decide(index)))
        dtype, rule = array.dtype, UFUNC_RULES[getattr(np, name)]
        wide = mx.float32 if dtype in _HALF_TYPES else dtype
        values = self._of_type(np.broadcast_to(self.elements(value), places.shape), wide)
        for place, x in zip(places.ravel().tolist(), element_list(values), strict=True):
            at_first = as_element(resolve_winners(elements[place]), wide)
            elements[place] = as_element(rule(at_first, x), dtype)
        return self.made(array_of_objects(elements).reshape(before.shape), dtype)

    # -- functions with rules of their own; the name after ``_on_`` is MLX's --

    def array(self, val: Any, dtype: Any = None) -> DrawnArray:
        """Return what ``mx.array`` makes of numbers, draws and lists of both."""
        dtype = self._lift(dtype)
        if not self.is_symbolic(val):
            val = known_of(val)
            if dtype is None:
                dtype = RealArray(val).dtype
                dtype = mx.float64 if dtype in self.lifted else dtype
            return DrawnArray.of_known(RealArray(val, dtype))
        if type(val) is DrawnArray:
            return self._on_astype(val, val.dtype if dtype is None else dtype)
        if isinstance(val, list | tuple):
            parts = [self.array(x) for x in val]
            kind = parts[0].dtype if dtype is None else dtype
            for part in parts[1:] if dtype is None else ():
                kind = REAL.result_type(REAL.ones((), dtype=kind), REAL.ones((), dtype=part.dtype))
            typed = [self._on_astype(part, kind) for part in parts]
            return self.run("stack", REAL.stack, (typed,), {})  # type: ignore[no-any-return]
        values = as_objects(val)
        if dtype is None:
            blank = self._blank(val)
            if isinstance(val, Draw | Winner | MixedInteger):
                blank = RealArray(blank)
            else:
                blank = RealArray(np.zeros(1, common_type(values.ravel().tolist())))
            dtype = blank.dtype
        return self.made(values, dtype)

    _on_asarray = array

    def _on_astype(self, x: Any, dtype: Any) -> DrawnArray:
        if dtype == mx.bool_:
            return self.made(
                map_elements(UFUNC_RULES[np.not_equal], [self.elements(x), 0]), mx.bool_
            )
        return self.made(as_objects(self.numbers(x)), dtype)

    def _on_item(self, x: Any) -> Any:
        elements = as_objects(self.numbers(x)).ravel()
        if elements.size != 1:
            raise ValueError("[item] item can only be called on arrays of size 1.")
        return as_python_value(resolve_winners(self.word(elements[0])))

    def _on_tolist(self, x: Any) -> Any:
        numbers = x.numbers()
        return numbers.tolist() if x.ndim else self._on_item(x)

    def _on___bool__(self, x: Any) -> bool:
        return bool(self._on_item(x))

    def _on___int__(self, x: Any) -> Any:
        return int(self._on_item(x))

    def _on___index__(self, x: Any) -> Any:
        return operator.index(self._on_item(x))

    def _on___float__(self, x: Any) -> Any:
        del x
        self.source.refuse("float() of a draw", FloatOfDraw)

    def _on___format__(self, x: Any, spec: str) -> str:
        return repr(x) if x.ndim else format(self._on_item(x), spec)

    def _on___setitem__(self, x: Any, index: Any, value: Any) -> Any:
        index = self.decide(index)
        # For what it raises.
        _set_item(REAL.add(self._blank(x), 0), index, self._blank(value))
        pool: list[Any] = [0.0]
        whole, put = self._numbered(x, pool), self._numbered(value, pool)
        _set_item(whole, index, put)
        return self._gathered(pool, whole, self._blank(x))

    def _on_clip(self, a: Any, a_min: Any = None, a_max: Any = None) -> Any:
        a = a if a_min is None else self.call("maximum", a, a_min)
        return a if a_max is None else self.call("minimum", a, a_max)

    def _on_rsqrt(self, a: Any) -> Any:
        return self.call("reciprocal", self.call("sqrt", a))

    def _on_nan_to_num(self, a: Any, *args: Any, **kwargs: Any) -> Any:
        def finite(x: Any) -> Any:
            if isinstance(x, Draw):
                return x
            return np.array(REAL.nan_to_num(RealArray(x, a.dtype), *args, **kwargs))[()]

        return self.made(map_elements(finite, [self.elements(a)]), a.dtype)

    def _drawn(self, a: Any, kind: Any = None) -> Any:
        """Return elements as an array of draws, of a type, 16 bits as float32 if it is given."""
        elements = self._without_words(self.elements(a))
        if kind is not None:
            elements = self._of_type(elements, mx.float32 if kind in _HALF_TYPES else kind)
        return make_draw_array(element_list(elements), elements.shape)

    def _reduced(self, name: str, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        asked = self.asked(getattr(REAL, name), a, axis=axis, keepdims=keepdims)
        axis = tuple(axis) if isinstance(axis, list) else axis
        values = getattr(np, name)(self._drawn(a, asked.dtype), axis=axis, keepdims=keepdims)
        return self.made(as_objects(values).reshape(asked.shape), asked.dtype)

    _on_sum, _on_prod = partialmethod(_reduced, "sum"), partialmethod(_reduced, "prod")
    _on_max, _on_min = partialmethod(_reduced, "max"), partialmethod(_reduced, "min")

    def _on_mean(self, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        total = self._reduced("sum", a, axis, keepdims)
        return self.call("divide", total, self._blank(a).size // max(total.size, 1))

    def _index(self, name: str, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        asked = self.asked(getattr(REAL, name), a, axis=axis, keepdims=keepdims)
        index = getattr(np, name)(self._drawn(a), axis=axis, keepdims=keepdims)
        return self.made(as_objects(index).reshape(asked.shape), asked.dtype)

    _on_argmax, _on_argmin = partialmethod(_index, "argmax"), partialmethod(_index, "argmin")

    def _running(
        self, name: str, a: Any, axis: Any = None, reverse: bool = False, inclusive: bool = True
    ) -> Any:
        if not inclusive:
            self.refuse(f"{name} without the element itself")
        dtype = self.asked(getattr(REAL, name), a, axis=axis).dtype
        drawn = self._drawn(a, dtype)
        if axis is None:
            drawn, axis = drawn.ravel(), 0
        values = getattr(np, name)(np.flip(drawn, axis) if reverse else drawn, axis=axis)
        return self.made(np.flip(values, axis) if reverse else values, dtype)

    _on_cumsum = partialmethod(_running, "cumsum")
    _on_cumprod = partialmethod(_running, "cumprod")

    def _whether(self, name: str, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.call(name, self.call("not_equal", a, 0), axis=axis, keepdims=keepdims)

    _on_all, _on_any = partialmethod(_whether, "all"), partialmethod(_whether, "any")

    # -- functions that only compare: MLX runs them on the ranks of the elements --

    def _ranks(self, a: Any) -> Any:
        """Return how many different elements are below each of the last axis, float32."""
        lanes = self._drawn(a)
        ranks = np.empty(lanes.shape, dtype=np.float32)
        for place in np.ndindex(lanes.shape[:-1]):
            lane, rank, before = lanes[place], 0, None
            for at in np.argsort(lane, kind="stable").tolist():
                rank += before is not None and bool(lane[before] != lane[at])
                ranks[(*place, at)], before = rank, at
        return RealArray(ranks)

    def _last_axis(self, a: Any, axis: int | None) -> Any:
        return self.call("flatten", a) if axis is None else self.call("moveaxis", a, axis, -1)

    def _by_rank(self, name: str, a: Any, *args: Any, axis: int | None = -1) -> Any:
        """Return the positions that such a function gives."""
        made = getattr(REAL, name)(self._ranks(self._last_axis(a, axis)), *args, axis=-1)
        return self.followed(REAL.moveaxis(made, -1, -1 if axis is None else axis))

    _on_argsort = partialmethod(_by_rank, "argsort")
    _on_argpartition = partialmethod(_by_rank, "argpartition")

    def _by_value(self, name: str, a: Any, *args: Any, axis: int | None = -1) -> Any:
        """Return the elements that such a function gives."""
        lanes = self._last_axis(a, axis)
        ranks = self._ranks(lanes)
        given, ranks = (np.array(x) for x in (getattr(REAL, name)(ranks, *args, axis=-1), ranks))
        elements, chosen = self.elements(lanes), np.empty(given.shape, dtype=object)
        for place in np.ndindex(given.shape[:-1]):
            known = dict(zip(ranks[place].tolist(), element_list(elements[place]), strict=True))
            chosen[place] = array_of_objects([known[rank] for rank in given[place].tolist()])
        return self.made(np.moveaxis(chosen, -1, -1 if axis is None else axis), a.dtype)

    _on_sort, _on_topk = partialmethod(_by_value, "sort"), partialmethod(_by_value, "topk")
    _on_partition = partialmethod(_by_value, "partition")

    def _on_searchsorted(self, a: Any, v: Any, side: str = "left") -> Any:
        if self.is_symbolic(a):
            self.refuse("searchsorted in random cells")
        kind = self._common_type(a, v)
        self.source.meet(dtype_name(kind))
        cells, keys = (self._of_type(self.elements(x), kind) for x in (a, v))
        return self.made(sorted_positions(cells, keys, side), mx.uint32)

    def _on_array_equal(self, a: Any, b: Any, equal_nan: bool = False) -> Any:
        del equal_nan  # a draw is a number
        if self._blank(a).shape != self._blank(b).shape:
            return self.made(np.bool_(False), mx.bool_)
        return self.call("all", self.call("equal", a, b))


def known_of(x: Any) -> Any:
    """Return an argument without draws as MLX takes it."""
    if type(x) is DrawnArray:
        return x.known
    if type(x) in (list, tuple):
        return type(x)(map(known_of, x))
    if type(x) is slice:
        return slice(*map(known_of, (x.start, x.stop, x.step)))
    return {key: known_of(y) for key, y in x.items()} if type(x) is dict else x


def as_element(x: Any, dtype: Any) -> Any:
    """Return an element as an array of this type holds it: a number, a draw, a winner."""
    if isinstance(x, KeyWord | MixedInteger):
        return x
    kind = _NUMPY_TYPES[dtype]
    if type(x) is Winner:
        if not (dtype in _FLOATS or dtype == mx.bool_):
            return x
        x = resolve_winners(x)
    if type(x) is kind:
        return x
    if not isinstance(x, Draw):
        return to_bfloat16(x) if kind is BFloat16 else np.asarray(x).astype(kind)[()]
    if type(x.machine.sample) is kind:
        return x
    if kind is np.bool_:
        return np.bool_(bool(x != 0))
    return x.cast(dtype_name(dtype)) if dtype in _FLOATS else x.as_type(kind)


def _as_numpy(x: Any) -> Elements:
    """Return numbers in numpy's type of the same name; bfloat16 as objects of its own."""
    if x.dtype == mx.bfloat16:
        wide = np.array(REAL.astype(x, mx.float32))
        return array_of_objects([BFloat16(y) for y in wide.ravel().tolist()]).reshape(wide.shape)
    return np.array(x)


def dtype_name(dtype: Any) -> str:
    """Return what numpy calls a type."""
    return str(dtype).rpartition(".")[2]

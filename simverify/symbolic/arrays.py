"""Numpy arrays that hold symbolic draws, their ufuncs, and winners that are decided when read.

A :class:`DrawArray` is an object array whose comparisons fork element by element, in C
order, into plain boolean arrays; once no element is symbolic it becomes a plain array.
Sorting, ``argmax`` and ``searchsorted`` work through the comparisons of the elements. Its
elements are of the type that the real array's have, and its ``dtype`` is that type.
"""

# ruff: noqa: D102, D103 - methods and functions whose name and types say what a docstring would

__simverify_role__ = "stand-in"


import math
import operator
from collections.abc import Callable
from functools import partialmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.forms import Form
from simverify.symbolic.provenance import ArrayOfDraws, FloatOfDraw, name_pairs, names
from simverify.symbolic.races import CodeSite, current_site, decide_first
from simverify.symbolic.scalar import ARRAY_HOOKS, OBJECT_LOOPS, Draw, nested_object_array

if TYPE_CHECKING:
    from simverify.symbolic.races import DrawPath


# Winners of races and outcomes of draws, decided when they are read.
#
# Code that draws a token for every slot and uses one of them would fork for all of them. So an
# argmax of draws is a :class:`Winner`: a number that is not known until code does more with it
# than move it. Reading late loses nothing: it is a function of draws that keep what is known
# about them, and once read it stays.


def race_winner(lane: "list[Any]", site: CodeSite, *, largest: bool) -> Any:
    """Index of the largest or smallest of draws and numbers, now or when it is read."""

    def index() -> int:
        if (first := decide_first(lane, largest=largest)) is not None:
            return first
        array = array_of_objects(lane)
        return int((array.argmax if largest else array.argmin)())

    draw = next((x for x in lane if isinstance(x, Draw)), None)
    return index() if draw is None else defer_winner(draw.source, index, site)


def defer_winner(source: "DrawPath", index: Callable[[], int], site: CodeSite) -> Any:
    """Return what ``index`` will say, now or when it is read: as the ``site`` needs it."""
    if source.at_once or not source.sites.waits_at(site):
        return index()
    result = Winner(source, index, site)
    source.sites.add(site, result)
    return result


class Winner:
    """An index that passes for numpy's; whatever asks for its value decides it."""

    __slots__ = ("_decide", "_epoch", "_index", "_site", "_source")

    def __init__(self, source: "DrawPath", decide: Callable[[], int], site: CodeSite) -> None:
        self._source = source
        self._decide = decide
        self._site = site
        self._epoch = source.epoch
        self._index: int | None = None
        source.postponed = True

    @property
    def is_read(self) -> bool:
        return self._index is not None

    def read(self) -> Any:
        """Return the index, which forks the first time."""
        if self._index is None:
            if self._epoch != self._source.epoch:
                self._source.refuse("the winner of a race that an earlier call kept")
            # Whoever reads it, it is decided where it was drawn.
            before, self._source.reading = self._source.reading, self._site
            try:
                self._index = self._decide()
            finally:
                self._source.reading = before
        return np.intp(self._index)

    # Code may ask for its type before its value.
    __class__ = property(lambda self: np.intp)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array"):
            # Inside an array it is an object, and stays unread.
            raise AttributeError(name)
        return getattr(self.read(), name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(resolve_winners, inputs), **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        kwargs = {key: resolve_winners(x) for key, x in kwargs.items()}
        return func(*resolve_winners(args), **kwargs)

    def __copy__(self) -> "Winner":
        return self

    def __deepcopy__(self, memo: Any) -> "Winner":
        return self

    def __reduce__(self) -> Any:
        return self.read().__reduce__()


def _method_reading(name: str) -> Callable[..., Any]:
    return lambda self, *others: getattr(self.read(), name)(*map(resolve_winners, others))


_BOTH_SIDES = names("add sub mul truediv floordiv mod divmod pow lshift rshift and or xor")
for _name in (
    *names("lt le gt ge eq ne hash bool int index float repr str format neg pos abs invert round"),
    *_BOTH_SIDES,
    *(f"r{op}" for op in _BOTH_SIDES),
):
    setattr(Winner, f"__{_name}__", _method_reading(f"__{_name}__"))


def resolve_winners(x: Any) -> Any:
    """Read the winners in a value: itself, a list or tuple of values, an array of objects."""
    if type(x) is Winner:
        return x.read()
    if type(x) in (list, tuple) and any(isinstance(y, _READ_INSIDE) for y in x):
        return type(x)(map(resolve_winners, x))
    if isinstance(x, np.ndarray) and x.view(np.ndarray).dtype == object:
        flat = x.ravel().view(np.ndarray).tolist()
        if any(type(y) is Winner for y in flat):
            return ARRAY_HOOKS.of([resolve_winners(y) for y in flat], x.shape)
    return x


_READ_INSIDE = (Winner, list, tuple, np.ndarray)

Elements = np.ndarray[Any, Any]


class DrawArray(np.ndarray[Any, Any]):
    """An object array of draws and numbers; see the module."""

    _real: Any

    # Code may ask for its type.
    __class__ = property(lambda self: np.ndarray)

    def __array_finalize__(self, made_from: Any) -> None:
        self._real = getattr(made_from, "_real", None)

    @property
    def dtype(self) -> Any:
        """The type that the array has for the code."""
        stored = super().dtype
        if stored.kind != "O":
            return stored
        if self._real is None:
            self._real = common_type(self.view(np.ndarray).ravel().tolist())
        return self._real

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAY_HOOKS.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return ARRAY_HOOKS.apply_function(func, types, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(resolve_index(index))
        if isinstance(result, DrawArray):
            return simplify_array(result) if result.ndim == 0 else result
        return self._typed(result)

    def __setitem__(self, index: Any, value: Any) -> None:
        index, stored = resolve_index(index), self.conform(value)
        if isinstance(stored, np.ndarray):
            place = self.view(np.ndarray)[index]
            if not isinstance(place, np.ndarray):
                # For what it raises: one number takes no array.
                one, ones = np.ones(1, self.dtype), np.ones(stored.shape, self.dtype)
                one[0] = ones.tolist() if isinstance(value, list | tuple) else ones
                stored = stored.ravel()[0]
        super().__setitem__(index, stored)

    def conform(self, value: Any) -> Any:
        """Return what is stored where a value is assigned: it takes the array's type."""
        if not isinstance(value, Draw):
            value = as_objects(value) if isinstance(value, list | tuple) else value
            if not is_symbolic(value):
                value = np.asarray(resolve_winners(value), dtype=self.dtype)
                if not value.ndim:
                    return self._typed(value.item())
                return array_of_objects(list(value.ravel())).reshape(value.shape)
        elements = as_objects(value)
        cast = [convert_element(x, self.dtype) for x in elements.ravel().tolist()]
        if elements.ndim == 0:
            return cast[0]
        return array_of_objects(cast).reshape(elements.shape)

    def _typed(self, x: Any) -> Any:
        return x if isinstance(x, _SYMBOLS) else self.dtype.type(x)

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self[()])

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        result = super().__array_wrap__(array, context, return_scalar)
        return simplify_array(result) if isinstance(result, DrawArray) else result

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the elements as another type: integers and booleans may fork."""
        kind = np.dtype(dtype)
        if args or kwargs:
            np.ones(1, self.dtype).astype(dtype, *args, **kwargs)  # for what it raises
        if kwargs.get("copy", True) is False and kind == self.dtype:
            return self
        flat = [convert_element(x, kind) for x in self.view(np.ndarray).ravel().tolist()]
        return make_draw_array(flat, self.shape, kind)

    def _arg(
        self, axis: Any = None, out: Any = None, *, keepdims: Any = False, largest: bool
    ) -> Any:
        """Index of an extreme element; noise that races forks once, by outcome, when read."""
        plain = self.view(np.ndarray)
        if out is not None:
            refuse_call((plain,), "argmax(out=) of draws")
        lanes = plain.reshape(1, -1) if axis is None else np.moveaxis(plain, axis, -1)
        shape = lanes.shape[:-1]
        site = current_site()
        each = [race_winner(lanes[x].tolist(), site, largest=largest) for x in np.ndindex(shape)]
        indices = make_draw_array(each, shape) if each else np.empty(shape, dtype=np.intp)
        if keepdims is True:
            whole = axis is None
            return indices.reshape([1] * self.ndim) if whole else np.expand_dims(indices, axis)
        return indices[0] if axis is None else indices

    argmax: Any = partialmethod(_arg, largest=True)
    argmin: Any = partialmethod(_arg, largest=False)

    def clip(self, min: Any = None, max: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        return np.clip(self, min, max, *args, **kwargs)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        if out is not None:
            refuse_call((self,), "round(out=) of draws")
        flat = [x.round(decimals) for x in self.view(np.ndarray).ravel().tolist()]
        return make_draw_array(flat, self.shape)


DrawArray.__name__, DrawArray.__module__ = np.ndarray.__name__, np.ndarray.__module__


def convert_element(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return an element as one of another type."""
    if type(x) is Winner:
        return x if dtype.kind in "iu" else dtype.type(x.read())
    return x.as_type(dtype) if isinstance(x, Draw) else dtype.type(x)


def common_type(elements: "list[Any]") -> np.dtype[Any]:
    types = {type(sample_of(x)) for x in elements}
    if len(types) == 1 and (kind := _DTYPE_BY_TYPE.get(next(iter(types)))) is not None:
        return kind
    for x in elements:
        if isinstance(x, Draw):
            x.check_64_bits()
    kinds = {np.asarray(sample_of(x)).dtype for x in elements}
    return np.result_type(*kinds) if kinds else np.dtype(np.float64)


def sample_of(x: Any) -> Any:
    """Return a number of the type that an element has: its sample, an index, or itself."""
    if type(x) is Winner:
        return np.intp(0)
    return x.machine.sample if isinstance(x, Draw) else x


def as_python_value(x: Any) -> Any:
    return x.as_python() if isinstance(x, Draw) else x.item() if isinstance(x, np.generic) else x


_DTYPE_BY_TYPE: dict[Any, np.dtype[Any]] = {
    kind: np.dtype(kind)
    for kind in (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_, bool)
}
_DTYPE_BY_TYPE[float] = np.dtype(np.float64)
"""Types of elements whose array has this one type; Python's integers may be too large for one."""


def array_of_objects(elements: "list[Any]") -> Elements:
    """Return an array of these very objects; numpy would make numbers of Python's of its own."""
    return np.fromiter(elements, dtype=object, count=len(elements))


def make_draw_array(elements: "list[Any]", shape: Any, dtype: Any = None) -> Any:
    """Return an array of this shape; a plain array if no element is symbolic."""
    kind = common_type(elements) if dtype is None else dtype
    if not any(isinstance(x, _SYMBOLS) for x in elements):
        return np.array(elements, dtype=kind).reshape(shape)
    draw = first_draw(elements) if kind == np.float16 else None
    if draw is not None and draw.source.refuses_arrays:
        # In a list beside doubles numpy would silently keep its draws in 16 bits.
        draw.refuse("an array of 16-bit draws", ArrayOfDraws)
    made = cast_objects(elements, kind).reshape(shape).view(DrawArray)
    made._real = kind
    return made


def cast_objects(elements: "list[Any]", kind: np.dtype[Any]) -> Elements:
    return array_of_objects([as_type(x, kind) for x in elements])


def as_type(x: Any, kind: np.dtype[Any]) -> Any:
    if type(x) is kind.type or (isinstance(x, Draw) and isinstance(x.machine.sample, kind.type)):
        return x
    return convert_element(x, kind)


def simplify_array(array: Elements) -> Any:
    """Turn an object array of numbers alone into a plain one, a 0-d one into its element."""
    if array.view(np.ndarray).dtype != object:
        return array.view(np.ndarray)[()] if array.ndim == 0 else array.view(np.ndarray)
    flat = array.ravel().view(np.ndarray).tolist()
    if not any(isinstance(x, _SYMBOLS) for x in flat):
        kind = array.dtype if isinstance(array, DrawArray) else None
        plain = np.array(flat if flat else [], dtype=kind if flat else kind or np.float64)
        plain = plain.reshape(array.shape)
        return plain[()] if array.ndim == 0 else plain
    return flat[0] if array.ndim == 0 else array.view(DrawArray)


def is_symbolic(x: Any) -> bool:
    """Whether a value is a draw, the winner of a race, or an array with one."""
    if isinstance(x, _SYMBOLS):
        return True
    return holds_objects(x) and any(
        isinstance(y, _SYMBOLS) for y in x.view(np.ndarray).ravel().tolist()
    )


_SYMBOLS = (Draw, Winner)


def holds_objects(x: Any) -> bool:
    """Whether a value is an array of objects; one of draws says another type."""
    return isinstance(x, np.ndarray) and (type(x) is DrawArray or x.dtype == object)


def resolve_index(index: Any) -> Any:
    """Read an index: whole draws in it are settled."""
    if isinstance(index, tuple):
        return tuple(map(resolve_index, index))
    if isinstance(index, DrawArray):
        return ARRAY_HOOKS.known(index, "an index")
    return index


def as_objects(x: Any) -> Elements:
    """Return an array that is not asked how to apply a ufunc; scalars keep their type."""
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    if isinstance(x, list | tuple):
        plain = first_draw(x) is None
        return np.asarray(x).view(np.ndarray) if plain else nested_object_array(x)
    array = np.empty((), dtype=object)
    array[()] = x
    return array


def first_draw(inputs: Any) -> Draw | None:
    for x in inputs:
        if isinstance(x, Draw):
            return x
        if isinstance(x, list | tuple) and (draw := first_draw(x)) is not None:
            return draw
        if holds_objects(x):
            for y in x.view(np.ndarray).ravel().tolist():
                if isinstance(y, Draw):
                    return y
    return None


def refuse_call(inputs: Any, call: str) -> Any:
    draw = first_draw(inputs)
    assert draw is not None
    draw.refuse(call)


def _zero_dim_array(draw: Draw) -> DrawArray:
    scalar = np.empty((), dtype=object).view(DrawArray)
    np.ndarray.__setitem__(scalar, (), draw)
    return scalar


ARRAY_HOOKS.of, ARRAY_HOOKS.holding = make_draw_array, _zero_dim_array


# Placeholders: what numpy itself says of a result, its type and shape, and what it raises.
#
# Draws lie in arrays of objects, for which numpy knows neither. So the same function is called with
# ones in the place of draws, of the types and shapes that they have for the code.


def with_placeholders(x: Any) -> Any:
    """Return a value with ones in the place of draws: of their types, numbers of Python's too."""
    if isinstance(x, Draw):
        if type(x.machine.sample) is int:
            x.check_64_bits()
        return type(x.machine.sample)(1)
    if type(x) is Winner:
        return np.intp(1)
    if isinstance(x, list | tuple):
        return type(x)(map(with_placeholders, x)) if type(x) in (list, tuple) else x
    if not holds_objects(x):
        return x
    kind = x.dtype if type(x) is DrawArray else common_type(x.ravel().tolist())
    return np.ones(x.shape, kind)


def copy_with_placeholders(x: Any) -> Any:
    """Return the same of an array that is written into, which may have no draws yet."""
    return np.array(with_placeholders(x)) if isinstance(x, np.ndarray) else x


def result_dtype(func: Callable[..., Any], *args: Any, **kwargs: Any) -> np.dtype[Any]:
    """Return the type of what a function of numpy's gives; raises what it raises."""
    return np.asarray(run_on_placeholders(func, args, kwargs)).dtype


def run_on_placeholders(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Return what a function gives of ones; raises what it raises, for types and shapes."""
    with np.errstate(all="ignore"):
        kwargs = {key: with_placeholders(x) for key, x in kwargs.items()}
        return func(*map(with_placeholders, args), **kwargs)


def as_object_array(x: Any, *, several: bool = False) -> Any:
    """Return a value as an array of objects; with ``several``, a list as one of arrays."""
    if several and isinstance(x, list | tuple):
        return [as_object_array(y) for y in x]
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray) if holds_objects(x) else x.astype(object)
    return as_objects(x) if isinstance(x, list | tuple | Draw | Winner) else x


def cast_element(x: Any, kind: np.dtype[Any], *, wraps: bool = True) -> Any:
    """Return an element as numpy casts it: Python's integers, with ``wraps`` draws too, wrap."""
    if kind.kind in "iu":
        x = np.asarray(x)[()] if type(x) is int else as_int64(x) if wraps else x
    return as_type(x, kind)


def cast_object_array(array: Any, kind: np.dtype[Any], *, wraps: bool) -> Any:
    """Return an array of objects, all of one type; see :func:`cast_element`."""
    flat = [cast_element(x, kind, wraps=wraps) for x in array.ravel().tolist()]
    return array_of_objects(flat).reshape(array.shape)


def as_int64(x: Any) -> Any:
    """Return an integer of Python's as numpy's arrays hold it; anything else as it is."""
    if not isinstance(x, Draw) or type(x.machine.sample) is not int:
        return x
    x.check_64_bits()
    return x.as_type(np.int64)


# Ufuncs on single draws and numbers.


def _binary_rule(forward: str, backward: str, ufunc: Any) -> Callable[[Any, Any], Any]:
    """Call the draw's own operator: that of a numpy number would come back here."""

    def apply(x: Any, y: Any) -> Any:
        if isinstance(x, Draw):
            return getattr(x, forward)(y)
        return getattr(y, backward)(x) if isinstance(y, Draw) else ufunc(x, y)

    return apply


def _unary_rule(rule: Callable[[Draw], Any], ufunc: Any) -> Callable[[Any], Any]:
    return lambda x: rule(x) if isinstance(x, Draw) else ufunc(x)


def _as_double(x: Any) -> Any:
    return x.cast(np.float64) if isinstance(x, Draw) else np.float64(x)


def extremum(x: Any, y: Any, *, low: bool, op: Callable[..., Any]) -> Any:
    """Return the larger (``low``: one is a lower bound of the other) or smaller, by ``op``."""
    if isinstance(x, Draw) and isinstance(y, Draw):
        chosen = x if (x < y) != low else y
        one, other = x.machine.sample, y.machine.sample
        if type(one) is type(other):
            return chosen
        return chosen.as_type(type(op(one, other)))
    if isinstance(x, Draw) or isinstance(y, Draw):
        return x.clip_at(y, low=low, op=op) if isinstance(x, Draw) else y.clip_at(x, low=low, op=op)
    return op(x, y)


def sign(x: Draw) -> Any:
    below = x.is_below(0)
    value = -1 if below else 0 if x.is_at(0) else 1
    return type(np.sign(x.machine.sample))(value)


def log_of(x: Any) -> Any:
    """Return the logarithm of a draw or an array as numpy's generators compute with it."""
    if isinstance(x, Draw):
        return UNARY_FUNCTIONS[np.log](x, math.log)
    return math.log(x) if type(x) is float else np.log(x)


def _signbit(x: Draw) -> Any:
    """Whether a draw is negative, or the negative zero."""
    if x.is_below(0) or not x.is_at(0):
        return np.bool_(x.is_below(0))
    value, first, last = x.grid()
    signs = np.signbit(value(first)), np.signbit(value(last))
    return signs[0] if signs[0] == signs[1] else x.refuse("the sign of a zero")


def _form_rule(ufunc: Any, make: Callable[[Form], Form]) -> Callable[..., Any]:
    def rule(x: Draw, op: Any = ufunc) -> Any:
        if x.holds_integers():
            return x.on_values(op, name=op.__name__)
        return x.map(lambda: make(x.form), op)

    return rule


UNARY_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.log: _form_rule(np.log, Form.log),
    np.log2: _form_rule(np.log2, lambda form: form.log().affine(1 / math.log(2), 0.0)),
    np.log10: _form_rule(np.log10, lambda form: form.log().affine(1 / math.log(10), 0.0)),
    np.log1p: _form_rule(np.log1p, lambda form: form.affine(1.0, 1.0).log()),
    np.exp: _form_rule(np.exp, Form.exp),
    np.expm1: _form_rule(np.expm1, lambda form: form.exp().affine(1.0, -1.0)),
    np.sqrt: lambda x, op=np.sqrt: x.power(0.5, op),
    np.square: lambda x, op=np.square: x.power(2.0, op),
}
"""Functions of one draw, by numpy's ufunc; the second argument is what computes them."""

UFUNC_RULES: dict[Any, Callable[..., Any]] = {
    **{
        getattr(np, name): _binary_rule(f"__{method}__", f"__r{method}__", getattr(np, name))
        for name, method in name_pairs(
            "add:add subtract:sub multiply:mul divide:truediv floor_divide:floordiv remainder:mod "
            "power:pow right_shift:rshift left_shift:lshift bitwise_and:and bitwise_or:or "
            "bitwise_xor:xor"
        ).items()
    },
    np.float_power: lambda x, y: UFUNC_RULES[np.power](_as_double(x), _as_double(y)),
    np.less: _binary_rule("__lt__", "__gt__", np.less),
    np.less_equal: _binary_rule("__le__", "__ge__", np.less_equal),
    np.greater: _binary_rule("__gt__", "__lt__", np.greater),
    np.greater_equal: _binary_rule("__ge__", "__le__", np.greater_equal),
    np.equal: _binary_rule("__eq__", "__eq__", np.equal),
    np.not_equal: _binary_rule("__ne__", "__ne__", np.not_equal),
    np.invert: _unary_rule(operator.invert, np.invert),
    np.negative: _unary_rule(operator.neg, np.negative),
    np.positive: _unary_rule(operator.pos, np.positive),
    np.absolute: _unary_rule(abs, np.absolute),
    np.fabs: _unary_rule(
        lambda x: abs(x) if not x.holds_integers() else x.refuse("np.fabs of a draw"), np.fabs
    ),
    **{
        ufunc: (lambda x, y, low=low, op=ufunc: extremum(x, y, low=low, op=op))
        for low, pair in ((False, (np.minimum, np.fmin)), (True, (np.maximum, np.fmax)))
        for ufunc in pair
    },
    np.isfinite: _unary_rule(lambda x: np.True_, np.isfinite),
    np.isnan: _unary_rule(lambda x: np.False_, np.isnan),
    np.isinf: _unary_rule(lambda x: np.False_, np.isinf),
    np.logical_not: lambda x: np.bool_(not x),
    np.logical_and: lambda x, y: np.bool_(bool(x) and bool(y)),
    np.logical_or: lambda x, y: np.bool_(bool(x) or bool(y)),
    np.logical_xor: lambda x, y: np.bool_(bool(x) != bool(y)),
    np.sign: _unary_rule(sign, np.sign),
    np.signbit: _unary_rule(_signbit, np.signbit),
    np.rint: _unary_rule(lambda x: x.nearest(np.rint), np.rint),
    np.floor: _unary_rule(lambda x: x.floor(np.floor), np.floor),
    np.ceil: _unary_rule(lambda x: x.ceiling(np.ceil), np.ceil),
    np.trunc: _unary_rule(lambda x: x.toward_zero(np.trunc), np.trunc),
    np.reciprocal: _unary_rule(lambda x: x.power(-1.0, np.reciprocal), np.reciprocal),
    **{ufunc: _unary_rule(rule, ufunc) for ufunc, rule in UNARY_FUNCTIONS.items()},
}
for _ufunc in (*UNARY_FUNCTIONS, np.rint, np.floor, np.ceil, np.trunc):
    OBJECT_LOOPS[_ufunc.__name__] = UFUNC_RULES[_ufunc]

_CLIP: Any = np._core.umath.clip  # type: ignore[attr-defined]  # has no public name


def _clip_ufunc(x: Any, low: Any, high: Any) -> Any:
    kind = type(_CLIP(*map(sample_of, (x, low, high))))
    x, low, high = (y.as_type(kind) if isinstance(y, Draw) else kind(y) for y in (x, low, high))
    above = extremum(x, low, low=True, op=np.maximum)
    return extremum(above, high, low=False, op=np.minimum)


UFUNC_RULES[_CLIP] = _clip_ufunc


# Ufuncs over arrays of draws, and functions that are computed for each value of a draw.


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc over draws, element by element."""
    draw = first_draw(inputs)
    rule = UFUNC_RULES.get(ufunc)
    scalars = not any(isinstance(x, np.ndarray | list | tuple) for x in inputs)
    if draw is not None and rule is not None and scalars and method == "__call__" and not kwargs:
        note_precision(draw, inputs)
        return rule(*_as_ufunc_scalars(inputs))
    function = rule or _wrapped_function(ufunc)
    out = kwargs.pop("out", None)
    if method == "at":
        if function is not None and draw is not None and len(inputs) == 3:
            return _apply_at(function, draw, *inputs)
        return run_on_values(ufunc.at, inputs, kwargs, name=f"np.{ufunc.__name__}.at")
    if draw is None:
        plain = [_without_winners(x) for x in inputs]
        if out is None or not any(holds_objects(x) for x in out):
            return getattr(ufunc, method)(*plain, **kwargs, **({"out": out} if out else {}))
        # An array that held draws, and may hold numbers alone by now.
        where = kwargs.get("where", True)
        if len(out) != 1 or (where is not True and method != "__call__"):
            raise TypeError(f"np.{ufunc.__name__} into parts of an array that held draws")
        _check_output_arrays(ufunc, method, inputs, kwargs, out)
        into = ... if where is True else np.broadcast_to(np.asarray(where, bool), out[0].shape)
        every = {**kwargs, "where": True} if "where" in kwargs else kwargs
        result = getattr(ufunc, method)(*plain, **every)
        out[0][into] = np.broadcast_to(result, out[0].shape)[into]
        return out[0]
    note_precision(draw, inputs)
    if function is None or method not in ("__call__", "reduce", "accumulate", "outer"):
        name = f"np.{ufunc.__name__}{'' if method == '__call__' else '.' + method}"
        return run_on_values(getattr(ufunc, method), inputs, kwargs, name=name)
    if set(kwargs) - _SUPPORTED_KEYWORDS or kwargs.get("dtype") is not None:
        draw.refuse(f"np.{ufunc.__name__} of draws with {', '.join(kwargs)}")
    if out is not None:
        _check_output_arrays(ufunc, method, inputs, kwargs, out)
    if method == "__call__":
        result = map_elements(function, list(inputs), where=kwargs.get("where", True), out=out)
    else:
        kind = _reduction_dtype(ufunc, method, inputs[0])
        if kind is not None and kind != inputs[0].dtype:
            wide = getattr(ufunc, method)(inputs[0].astype(kind), *inputs[1:], **kwargs)
            kind = inputs[0].dtype if kind == np.float32 else kind
            array = isinstance(wide, np.ndarray)
            return wide.astype(kind) if array else convert_element(wide, kind)
        plain = [x.view(np.ndarray) if isinstance(x, DrawArray) else x for x in inputs]
        if method == "outer":
            # Elements keep numpy's types.
            boxed = [np.asarray(as_objects(x)) for x in inputs]
            plain = [array_of_objects(element_list(x)).reshape(x.shape) for x in boxed]
        options = {k: v for k, v in kwargs.items() if k != "dtype" and v is not np._NoValue}
        if method == "reduce" and {"initial", "where"} & set(options):
            # What it starts from, of the type that it has.
            start = result_dtype(ufunc.reduce, *inputs, **options)
            first = options.get("initial", ufunc.identity)
            options |= {} if first is None else {"initial": convert_element(first, start)}
        # With an identity it reduces several axes at once, as the real one does.
        several = ufunc.identity is not None or ufunc in (np.maximum, np.minimum, np.fmax, np.fmin)
        objects = np.frompyfunc(function, 2, 1, **({"identity": None} if several else {}))
        result = getattr(objects, method)(*plain, **options)
        if not isinstance(result, Draw):
            result = simplify_array(np.asarray(result, dtype=object))
    if out is not None:
        out[0][...] = result
        return out[0]
    return result


def _apply_at(
    function: Callable[..., Any], draw: Draw, array: Any, indices: Any, values: Any
) -> None:
    """Apply a ufunc of two to the elements at some places, one after the other."""
    if type(array) is not DrawArray:
        draw.refuse("float() of a draw", FloatOfDraw)
    plain = array.view(np.ndarray)
    places = np.arange(plain.size).reshape(plain.shape)[resolve_index(indices)]
    given = np.broadcast_to(as_objects(values), places.shape)
    for place, value in zip(places.ravel().tolist(), element_list(given), strict=True):
        at = np.unravel_index(place, plain.shape)
        plain[at] = convert_element(function(plain[at], value), array.dtype)


def _reduction_dtype(ufunc: Any, method: str, array: Any) -> "np.dtype[Any] | None":
    """Return the type to add up in: short integers in long ones, 16 bits in float32."""
    if method not in ("reduce", "accumulate") or ufunc not in (np.add, np.multiply):
        return None
    if not isinstance(array, DrawArray):
        return None
    if array.dtype == np.float16 and method == "reduce":
        return np.dtype(np.float32)
    kind: np.dtype[Any] = getattr(ufunc, method)(np.ones(1, array.dtype)).dtype
    return kind


def _check_output_arrays(
    ufunc: Any, method: str, inputs: Any, kwargs: dict[str, Any], out: Any
) -> None:
    """Raise what numpy raises where arrays do not take the type or the shape of a result."""
    copies = tuple(map(copy_with_placeholders, out))
    run_on_placeholders(getattr(ufunc, method), inputs, {**kwargs, "out": copies})


_SUPPORTED_KEYWORDS = {"where", "axis", "keepdims", "dtype", "initial", "out"}


def _wrapped_function(ufunc: Any) -> Callable[..., Any] | None:
    """Return a Python function that was made a ufunc, by np.vectorize or np.frompyfunc."""
    if ufunc.nout != 1 or set(ufunc.types) != {"O" * ufunc.nin + "->O"}:
        return None

    def call(*values: Any) -> Any:
        # Boxed, so that the draws are not asked how to apply it.
        symbolic = any(isinstance(x, Draw) for x in values)
        return ufunc(*map(as_objects, map(as_python_value, values))) if symbolic else ufunc(*values)

    return call


def _without_winners(x: Any) -> Any:
    """Return a value without draws as numbers, in lists too: the winners in it are read."""
    x = resolve_winners(x)
    if type(x) in (list, tuple):
        return type(x)(map(_without_winners, x))
    return simplify_array(x) if isinstance(x, DrawArray) else x


def note_precision(draw: Draw, inputs: Any) -> None:
    """Note the precision of arrays that meet a draw."""
    for x in inputs:
        if isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f":
            draw.source.meet(x.dtype)


def map_elements(
    function: Callable[..., Any], inputs: list[Any], *, where: Any = True, out: Any = None
) -> Any:
    """Return ``function`` of every element, spread as numpy does."""
    arrays = [as_objects(x) for x in inputs]
    if all(a.ndim == 0 for a in arrays) and where is True:
        return function(*_as_ufunc_scalars(a[()] for a in arrays))
    if where is not True:
        arrays.append(np.asarray(where))
    shape = arrays[0].shape
    alike = all(a.shape == shape for a in arrays)
    spread = arrays if alike else np.broadcast_arrays(*arrays)
    shape = spread[0].shape
    columns = [element_list(a) for a in spread]
    if where is True:
        values = [function(*row) for row in zip(*columns, strict=True)]
    else:
        previous = element_list(np.broadcast_to(as_objects(out[0]), shape)) if out else None
        if previous is None:
            return refuse_call(inputs, "where= without out=")
        values = [
            function(*row) if use else old
            for *row, use, old in zip(*columns, previous, strict=True)
        ]
    return make_draw_array(values, shape)


def _as_ufunc_scalars(values: Any) -> Any:
    """Return scalars as numpy's: of Python's alone, ufuncs make its doubles and integers."""
    row = list(values)
    kinds = [type(sample_of(x)) for x in row]
    if not all(kind in (float, int, bool) for kind in kinds):
        return row
    if float not in kinds:
        return [as_int64(x) for x in row] if int in kinds else row
    return [
        x.cast(np.float64) if isinstance(x, Draw) and k is float else x
        for x, k in zip(row, kinds, strict=True)
    ]


def element_list(array: Elements) -> "list[Any]":
    """Return the elements in order; numpy's numbers stay numpy's."""
    return array.ravel().tolist() if array.dtype == object else list(array.ravel())


def run_on_values(func: Any, args: Any, kwargs: dict[str, Any], *, name: str) -> Any:
    """Run a function on each of the few values of whole draws, or refuse it by name."""
    values = [*args, *kwargs.values()]
    if first_draw(values) is None:
        plain = [_without_winners(x) for x in values]
    else:
        plain = [settle_draws(x, name) for x in values]
    result = func(*plain[: len(args)], **dict(zip(kwargs, plain[len(args) :], strict=True)))
    for x, y in zip(values, plain, strict=True):
        # Some functions change their arguments.
        if type(x) is DrawArray and x.ndim and x.flags.writeable:
            np.ndarray.__setitem__(x, ..., array_of_objects(list(y.ravel())).reshape(x.shape))
    return result


def settle_draws(x: Any, name: str) -> Any:
    """Return a value with its draws settled: one path for each of their values."""
    if isinstance(x, list | tuple):
        return type(x)(settle_draws(y, name) for y in x)
    if isinstance(x, Draw):
        return x.settle() if x.settles() else x.refuse(f"{name} of draws")
    if not holds_objects(x) or not is_symbolic(x):
        return _without_winners(x)
    elements = resolve_winners(x).view(np.ndarray)
    flat = [settle_draws(y, name) for y in elements.ravel().tolist()]
    return np.array(flat, dtype=common_type(flat)).reshape(elements.shape)


ARRAY_HOOKS.apply_ufunc, ARRAY_HOOKS.known = apply_ufunc, settle_draws

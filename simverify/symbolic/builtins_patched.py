"""Stand-ins for functions that make or take floats: they leave draws as they are.

``float(rng.random())`` must return a float, which a draw cannot be, and so must every element of
``np.empty(n)``; where code was stopped by that, the name ``float`` is replaced in its modules,
and so are numpy's float types and functions that make arrays of floats. The types still pass for
types: in ``isinstance``, as a dtype, for class methods. The functions of Python's library that
take floats, as those of ``math``, would refuse draws, and are replaced throughout.
"""

# ruff: noqa: D102 - twins are documented in the library that they stand for

__simverify_role__ = "stand-in"


import array
import functools
import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from simverify.symbolic.array_functions import (
    FUNCTION_RULES,
    JOIN_RULES,
    MOVE_FUNCTIONS,
    SEQUENCE_FUNCTIONS,
)
from simverify.symbolic.arrays import (
    UFUNC_RULES,
    UNARY_FUNCTIONS,
    DrawArray,
    Winner,
    as_object_array,
    convert_element,
    is_symbolic,
    make_draw_array,
    refuse_call,
    run_on_placeholders,
)
from simverify.symbolic.integers import MixedInteger
from simverify.symbolic.provenance import names, user_namespaces
from simverify.symbolic.scalar import Draw, nested_object_array

# Functions of numpy that make arrays of lists of draws.
#
# numpy would make arrays of objects, in which every draw keeps the type that it had: a float16
# beside a double would not become a double. Where code was stopped by that, these names are
# replaced in its modules.


def array_twins() -> dict[str, Any]:
    """Return what stands in for numpy's functions that are given lists of draws."""
    functions = {*MOVE_FUNCTIONS, *FUNCTION_RULES}
    listed = {
        name: _list_function_twin(function, several=name in SEQUENCE_FUNCTIONS)
        for name, function in vars(np).items()
        if isinstance(function, Hashable) and function in functions
        if callable(function) and not isinstance(function, type)
    }
    constructors = names("array asarray asanyarray ascontiguousarray asfortranarray fromiter")
    unfollowed = {
        name: _UnsupportedUfunc(ufunc)
        for name, ufunc in vars(np).items()
        if isinstance(ufunc, np.ufunc) and ufunc not in UFUNC_RULES
    }
    return {
        **unfollowed,
        **listed,
        **{name: _constructor_twin(getattr(np, name)) for name in constructors},
        "full": _full,
        "full_like": lambda prototype, fill_value, dtype=None, **kwargs: _full(
            np.shape(prototype), fill_value, dtype or prototype.dtype, **kwargs
        ),
    }


class _UnsupportedUfunc:
    """A ufunc without a rule, which would ask the numbers beside the draws of a tensor for one."""

    def __init__(self, ufunc: Any) -> None:
        self._ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arrays = [x.numpy() for x in args if hasattr(x, "numpy")]
        if any(map(is_symbolic, arrays)):
            refuse_call(arrays, f"np.{self._ufunc.__name__} of draws")
        return self._ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)


def _constructor_twin(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(data: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(data, Iterator):
            data = list(data)
        if isinstance(data, DrawArray) and original is not np.array and not args and not kwargs:
            same = dtype is None or np.dtype(dtype) == data.dtype
            return data if same else data.astype(dtype)
        if not _holds_draw(data):
            return original(data, dtype, *args, **kwargs)
        like = run_on_placeholders(original, (data, dtype, *args), kwargs)
        return make_draw_array(_element_list(data), like.shape, like.dtype)

    return make


def _list_function_twin(original: Callable[..., Any], *, several: bool) -> Callable[..., Any]:
    rule = JOIN_RULES.get(original)

    def function(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], list | tuple) and _holds_draw(args[0]):
            first = args[0]
            arrays = list(map(_list_as_array, first)) if several else _list_as_array(first)
            args = (arrays, *args[1:])
        if rule is not None and any(map(_holds_draw, (*args, *kwargs.values()))):
            # numpy hands on only what it looks for draws in.
            return rule(*args, **kwargs)
        return original(*args, **kwargs)

    return function


def _list_as_array(x: Any) -> Any:
    """Return a list with draws as an array of them, all of one type."""
    if not (isinstance(x, list | tuple) and _holds_draw(x)):
        return x
    return make_draw_array(_element_list(x), np.shape(run_on_placeholders(np.asarray, (x,), {})))


def _element_list(data: Any) -> "list[Any]":
    # Arrays of shape () are taken for elements.
    return [
        x[()] if type(x) is DrawArray else x for x in nested_object_array(data).ravel().tolist()
    ]


def _full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    if not _holds_draw(fill_value):
        return np.full(shape, fill_value, dtype, **kwargs)
    like = run_on_placeholders(np.full, (shape, fill_value, dtype), kwargs)
    wide = np.broadcast_to(np.asarray(as_object_array(fill_value), dtype=object), like.shape)
    return make_draw_array(wide.ravel().tolist(), like.shape, like.dtype)


def _holds_draw(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(map(_holds_draw, data))
    return is_symbolic(data)


# Names that the code under audit finds replaced: builtins, and what it takes from a module.
#
# A draw passes for a float by its ``__class__``, but ``type(u) is float`` looks past that; so
# ``type`` is among them, and returns the stand-in for a type where there is one.


class ModuleTwin(ModuleType):
    """A module as the code sees it: some names are others, the rest are the module's own."""

    def __init__(self, module: ModuleType, names: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Swappable(Protocol):
    """What stands for things that the code keeps, and can be put in their place and taken out."""

    def put_in(self) -> None:
        """Let the code find what stands for its things."""

    def put_back(self) -> None:
        """Let it find its own ones."""

    def close(self) -> None:
        """Put all back for good."""


class BuiltinTwins:
    """The builtins that are shadowed in the modules of the code, and names in twins of modules."""

    def __init__(self) -> None:
        self._shadowed: list[tuple[dict[str, Any], str, type]] = []
        self._kept: list[Swappable] = []

    def replace(self, code: Any, twins: dict[str, type], stack: ExitStack) -> None:
        """Shadow each that is named until ``stack`` closes."""
        for namespace in user_namespaces(code):
            for name, twin in twins.items():
                if name not in namespace:
                    namespace[name] = twin
                    self._shadowed.append((namespace, name, twin))
        stack.callback(self._put_back)

    def replace_kept(self, kept: "Swappable", stack: ExitStack) -> None:
        """Replace what the code keeps until ``stack`` closes."""
        self._kept.append(kept)
        kept.put_in()
        stack.callback(self._kept.remove, kept)
        stack.callback(kept.close)

    def replace_in(self, module: ModuleTwin, names: dict[str, Any], stack: ExitStack) -> None:
        """Note names of a module's twin that draws need, and numbers do not."""
        self._shadowed += [(vars(module), name, twin) for name, twin in names.items()]
        stack.callback(self._put_back)

    def _remove(self) -> None:
        for namespace, name, _ in self._shadowed:
            namespace.pop(name, None)

    def _put_back(self) -> None:
        self._remove()
        self._shadowed.clear()

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Give the code the real ones inside: a stand-in is not ``type(1) is int``."""
        self._remove()
        for kept in self._kept:
            kept.put_back()
        try:
            yield
        finally:
            for kept in self._kept:
                kept.put_in()
            for namespace, name, twin in self._shadowed:
                namespace[name] = twin


class TypeTwinMeta(type):
    """A stand-in for a type has the type's names and ancestors: code prints and compares them."""

    makes: type

    def __init__(cls, *parts: Any) -> None:
        super().__init__(*parts)
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(cls, name, getattr(cls.makes, name))

    __base__ = property(lambda cls: cls.makes.__base__)
    __bases__ = property(lambda cls: cls.makes.__bases__)
    __mro__ = property(lambda cls: (cls, *cls.makes.__mro__[1:]))

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.makes)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.makes)


class _TypeMeta(type):
    twins: dict[type, type]

    def __call__(cls, *parts: Any, **names: Any) -> Any:
        if "twins" not in vars(cls):
            return super().__call__(*parts, **names)  # a class of classes, which the code made
        if len(parts) != 1:
            return type(*parts, **names)
        x = parts[0]
        if x is cls or issubclass(type(x), TypeTwinMeta):
            return cls
        kind = x.__class__ if isinstance(x, Draw | Winner | MixedInteger) else type(x)
        return cls.twins.get(kind, kind)

    def __getitem__(cls, item: Any) -> Any:
        return type[item]

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, type)


def make_type_twin(twins: dict[type, type]) -> type:
    """Return what stands for ``type``; ``twins`` stand for the names of some types."""
    return _TypeMeta("type", (type,), {"twins": twins})


_real_trunc, _real_fsum = math.trunc, math.fsum
_REAL_ARRAY = array.array
_REAL_FRACTION: Any = Fraction.__new__
_MATH_FUNCTIONS = ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt")


def patch_float_functions(
    swap: Callable[[Any, str, Any], None], patches: list[tuple[Any, str, Any]]
) -> None:
    """Replace the functions of Python's library that take floats, and would refuse draws."""
    rules: dict[str, Callable[..., Any]] = {
        **{name: _math_rule(getattr(np, name), getattr(math, name)) for name in _MATH_FUNCTIONS},
        "fabs": lambda x: abs(_as_python_float(x)),
        "pow": lambda x, y: _as_python_float(x) ** y,
        "floor": Draw.floored,
        "ceil": Draw.ceiled,
        "trunc": _truncate_draw,
        "modf": _modf,
        "isnan": lambda x: False,
        "isinf": lambda x: False,
        "isfinite": lambda x: True,
    }
    for name, rule in rules.items():
        original = getattr(math, name)
        swap(math, name, followed := _draw_or_number(rule, original))
        # Python's random has names of its own for them, as for the floor of a uniform.
        patches += [(random, alias, followed) for alias, x in vars(random).items() if x is original]
    swap(math, "fsum", _fsum)
    # From Python 3.12 on Fraction asks the draw itself.
    patches.append((Fraction, "__new__", staticmethod(_fraction_twin)))


def _draw_or_number(rule: Callable[..., Any], original: Any) -> Callable[..., Any]:
    def function(x: Any, *others: Any) -> Any:
        if type(x) is DrawArray and x.shape == () and original is not _real_trunc:
            # What np.where gives of scalars; math takes its element.
            x = x[()]
        return rule(x, *others) if isinstance(x, Draw) else original(x, *others)

    return function


def _math_rule(ufunc: Any, original: Any) -> Callable[..., Any]:
    def rule(x: Draw, *base: Any) -> Any:
        value = UNARY_FUNCTIONS[ufunc](_as_python_float(x), original)
        return value / original(*base) if base else value

    return rule


def _as_python_float(x: Draw) -> Any:
    """Return a draw as a Python float, as the functions of math take it."""
    return x.cast(float)


def _truncate_draw(x: Draw) -> Any:
    # Most of numpy's types have no __trunc__: the real function says so.
    _real_trunc(type(x.machine.sample)(0))
    return x.whole()


def _fraction_twin(cls: type[Fraction], *parts: Any, **kwargs: Any) -> Fraction:
    for part in parts:
        if isinstance(part, Draw):
            part.refuse("the exact value of a draw (Fraction, as_integer_ratio)")
    return _REAL_FRACTION(cls, *parts, **kwargs)  # type: ignore[no-any-return]


def _modf(x: Draw) -> Any:
    whole = _as_python_float(x).toward_zero(lambda z: float(_real_trunc(z)))
    return _as_python_float(x) - whole, whole


def _fsum(terms: Iterable[Any]) -> Any:
    terms = list(terms)
    draws = [_as_python_float(x) for x in terms if isinstance(x, Draw)]
    if not draws:
        return _real_fsum(terms)
    numbers = [x for x in terms if not isinstance(x, Draw)]
    total, rest = sum(draws[1:], draws[0]), _real_fsum(numbers)
    return (
        total.map(lambda: total.form.affine(1.0, rest), lambda x: _real_fsum([x, *numbers]))
        if isinstance(total, Draw)
        else _real_fsum([total, *numbers])
    )


class _FloatTwinMeta(TypeTwinMeta, type):
    def __call__(cls, x: Any = 0.0) -> Any:
        if isinstance(x, Draw):
            return x.cast(cls.makes)
        if cls.makes is not float and hasattr(x, "numpy"):
            x = x.numpy()  # which a tensor of bfloat16 has not
        if isinstance(x, np.ndarray) and is_symbolic(x):
            return x.item().cast(float) if cls.makes is float else x.astype(cls.makes)[()]
        item = None if isinstance(x, np.ndarray) else getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value.cast(cls.makes)
        return cls.makes(x)


class FloatTwin(float, metaclass=_FloatTwinMeta):
    """See the module."""

    makes = float
    dtype = np.dtype(np.float64)


class _IntegerTwinMeta(_FloatTwinMeta, type):
    def __call__(cls, x: Any = 0) -> Any:
        if isinstance(x, Draw):
            return x.as_type(cls.makes)
        return super().__call__(x) if is_symbolic(x) else cls.makes(x)


@functools.cache
def _number_twin(kind: type) -> type:
    """Return the same for a type of numpy's; its integers would be made of Python's."""
    meta = _IntegerTwinMeta if issubclass(kind, np.integer) else _FloatTwinMeta
    return meta(kind.__name__, (kind,), {"makes": kind, "dtype": np.dtype(kind)})


class _IntTwinMeta(TypeTwinMeta, type):
    makes = int

    def __call__(cls, x: Any = 0, *base: Any) -> Any:
        if isinstance(x, Draw):
            return x.whole()
        if type(x) is MixedInteger:
            return x.as_python()
        item = None if isinstance(x, np.ndarray) else getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value.whole()
        return int(x, *base)


class IntTwin(int, metaclass=_IntTwinMeta):
    """The same for ``int``, of draws with more values than can be run one by one."""

    dtype = np.dtype(np.int64)


def numpy_twins() -> dict[str, Any]:
    """Return what stands in for numpy's float types and for what makes arrays of floats."""
    kinds = names(
        "float64 double float32 single float16 half int8 int16 int32 int64 uint8 uint16 uint32 "
        "uint64 intp"
    )
    filled = names("empty zeros ones empty_like zeros_like ones_like")
    return {
        **{name: _number_twin(getattr(np, name)) for name in kinds},
        **{
            name: _filled_array_twin(getattr(np, name), like=name.endswith("_like"))
            for name in filled
        },
    }


def _filled_array_twin(original: Callable[..., Any], *, like: bool) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        if like and is_symbolic(args[0]):
            args = (np.empty(np.shape(args[0]), dtype=args[0].dtype), *args[1:])
        plain = original(*args, **kwargs)
        # What np.empty leaves in an array is no number to follow.
        return array_for_draws(np.nan_to_num(plain) if plain.dtype.kind == "f" else plain)

    return make


def array_for_draws(plain: Any) -> Any:
    """Return an array of these numbers that takes draws, too; as it is where it has no floats."""
    if plain.dtype.names and type(plain) is np.ndarray:
        return DrawRecords.of(plain)
    if plain.dtype.kind != "f":
        return plain
    holder = np.empty(plain.shape, dtype=object).view(DrawArray)
    holder._real = plain.dtype
    holder[...] = plain
    return holder


class DrawRecords(np.ndarray[Any, Any]):
    """A structured array whose fields of floats take draws."""

    _real: Any

    # Code may ask for its type.
    __class__ = property(lambda self: np.ndarray)

    @classmethod
    def of(cls, plain: Any) -> Any:
        """Return records with the numbers of a structured array, if any of them are floats."""
        kinds = [plain.dtype[name] for name in plain.dtype.names]
        if not any(kind.kind == "f" for kind in kinds):
            return plain
        held = [object if kind.kind == "f" else kind for kind in kinds]
        fields = list(zip(plain.dtype.names, held, strict=True))
        made = np.empty(plain.shape, dtype=fields).view(cls)
        made._real = plain.dtype
        for name in plain.dtype.names:
            made[name] = plain[name]
        return made

    def __array_finalize__(self, made_from: Any) -> None:
        self._real = getattr(made_from, "_real", None)

    @property
    def dtype(self) -> Any:
        """The type that the array has for the code."""
        return self._real

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if not isinstance(index, str):
            return found
        column = found.view(np.ndarray)
        if not column.dtype.hasobject:
            return column
        column = column.view(DrawArray)
        column._real = self._real[index]
        return column

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, str):
            self[index][...] = value
        elif isinstance(value, list):
            super().__setitem__(index, [self._row(x) for x in value])
        else:
            super().__setitem__(index, self._row(value))

    def _row(self, value: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        kinds = [self._real[name] for name in self._real.names]
        return tuple(map(convert_element, value, kinds))


# Arrays that code made otherwise, and writes draws into one by one.


def container_twins(twins: dict[str, Any]) -> dict[str, Any]:
    """Return what stands for numpy's other functions that make arrays; ``twins`` come first."""
    made = names("full full_like array arange linspace logspace geomspace tile repeat eye identity")
    return {name: _new_array_twin(twins.get(name, getattr(np, name))) for name in made}


def _new_array_twin(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        array = make(*args, **kwargs)
        new = type(array) is np.ndarray and not any(array is x for x in args)
        return array_for_draws(array) if new else array

    return made


class ArrayTwin(list[Any]):
    """An ``array.array`` of floats that takes draws."""

    # Code may ask for its type.
    __class__ = property(lambda self: _REAL_ARRAY)

    def __init__(self, typecode: str, items: Iterable[Any] = ()) -> None:
        self.typecode = typecode
        self.itemsize = _REAL_ARRAY(typecode).itemsize
        super().__init__(map(self._conform, items))

    def _conform(self, x: Any) -> Any:
        if isinstance(x, Draw):
            return x.cast(float) if self.typecode == "d" else x.cast(np.float32).as_python()
        return _REAL_ARRAY(self.typecode, [x])[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        several = isinstance(index, slice)
        super().__setitem__(index, map(self._conform, value) if several else self._conform(value))

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return type(self)(self.typecode, found) if isinstance(index, slice) else found

    def append(self, x: Any) -> None:
        super().append(self._conform(x))

    def insert(self, index: Any, x: Any) -> None:
        super().insert(index, self._conform(x))

    def extend(self, items: Iterable[Any]) -> None:
        super().extend(map(self._conform, items))

    fromlist = extend

    def __iadd__(self, items: Iterable[Any]) -> Any:
        self.extend(items)
        return self

    def __add__(self, items: "list[Any]") -> Any:
        return type(self)(self.typecode, [*self, *items])

    def __mul__(self, times: Any) -> Any:
        return type(self)(self.typecode, super().__mul__(times))

    __rmul__ = __mul__

    def tolist(self) -> "list[Any]":
        return list(self)


class ArrayTypeTwin(metaclass=TypeTwinMeta):
    """``array.array``, whose arrays of floats take draws."""

    makes = _REAL_ARRAY

    def __new__(cls, typecode: str, items: Any = ()) -> Any:
        if typecode in ("f", "d") and not isinstance(items, bytes | bytearray):
            return ArrayTwin(typecode, items)
        return _REAL_ARRAY(typecode, items)


class MemoryviewTwin(metaclass=TypeTwinMeta):
    """``memoryview``, which is an array that takes draws where it shows one."""

    makes = memoryview

    def __new__(cls, x: Any) -> Any:
        if isinstance(x, ArrayTwin):
            return x
        return x[:] if isinstance(x, DrawArray) else memoryview(x)

"""The state that code carries between calls, as an image that can be compared and restored.

Code may carry anything from one call to the next. Two calls that begin after the same tokens
with equal images of all that was carried have one law, so only one of them need be run. An
image is a nest of tuples: the values of numbers, strings, arrays and tensors, the contents of
containers in their order, the attributes, slots and closures of objects, and which of them are
the same object. Whatever cannot be read from outside raises :class:`UnreadableState`: a draw
that is not decided yet, a running generator, an object of compiled code.
"""

import array
import collections
import datetime
import decimal
import dis
import enum
import fractions
import functools
import inspect
import operator
import os
import pathlib
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from simverify.symbolic.bindings import nested_code
from simverify.symbolic.numpy_random import (
    SymbolicBitGenerator,
    SymbolicGenerator,
    SymbolicRandomState,
)
from simverify.symbolic.provenance import (
    is_library,
    is_machinery,
    is_user_file,
    is_user_function,
    is_users_module,
    unwrap,
)
from simverify.symbolic.scalar import Draw
from simverify.symbolic.streams import sequence_of

MAX_PARTS = 20_000
"""A value of more parts is not read: that would take longer than to run a call again."""

MAX_BYTES = 1 << 20
"""The same for the bytes of arrays."""

_VALUE_TYPES = {int, str, bytes, bool, complex, range, type(None), type(...), type(NotImplemented)}
_VALUE_TYPES |= {datetime.date, datetime.datetime, datetime.timedelta}
_VALUE_TYPES |= {decimal.Decimal, fractions.Fraction, pathlib.PosixPath, pathlib.PurePosixPath}

_CONSTANT_TYPES = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.CodeType, types.ModuleType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias),
    *(staticmethod, classmethod, property, functools.cached_property),
    *(functools.singledispatchmethod, re.Pattern, np.dtype, np.ufunc),
)
"""What nothing can be kept in: one object is one value."""

_LOCK_TYPES = (type(threading.Lock()), type(threading.RLock()))
_LRU_CACHE_TYPE = type(functools.lru_cache(len))
_READABLE_BASES = (
    *(object, dict, list, tuple, set, frozenset, collections.deque, collections.OrderedDict),
    *(int, str, float, bytes, BaseException, Exception, types.SimpleNamespace),
)
"""Built-in classes whose state is readable in a class that inherits from them."""


class BoundNames:
    """Some names of a module, or of the class ``owner``, read as what they are bound to now."""

    def __init__(
        self, space: Mapping[str, Any], names: Iterable[str], owner: type | None = None
    ) -> None:
        self.space = space
        self.names = sorted(names)
        self.owner = owner

    def values(self) -> list[Any]:
        """Return the values, None for a name that is not bound."""
        return [self.space.get(name) for name in self.names]


class UnreadableState(Exception):
    """A value whose state cannot be read from outside."""


class StateReader:
    """Reads values into images; an object that it meets twice is marked as the same one.

    ``held``: called with each object that can be changed in place, in the order met.
    ``constant``: tells functions that keep nothing, as a library's.
    """

    def __init__(
        self,
        held: Callable[[Any], None] | None = None,
        constant: Callable[[types.FunctionType], bool] = lambda _: False,
    ) -> None:
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []
        self._parts = self._bytes = 0
        self._held = held
        self._is_constant = constant

    def image(self, x: Any) -> Hashable:
        """Return the image of one value; :class:`UnreadableState` if it has none."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise UnreadableState("a value of too many parts")
        kind = type(x)
        if kind in _VALUE_TYPES:
            return (kind, x)
        if kind is float:
            return (kind, x.hex())
        if kind is tuple:
            return (kind, *map(self.image, x))
        if issubclass(kind, np.generic):
            return (kind, x.tobytes())
        if issubclass(kind, weakref.ProxyTypes):
            raise UnreadableState("a weak proxy")
        if issubclass(kind, Draw):
            # It passes for a float, and its value is none.
            raise UnreadableState("a draw")
        if issubclass(kind, _CONSTANT_TYPES) or (issubclass(kind, enum.Enum)):
            owner = getattr(x, "__self__", None)
            bound = not isinstance(owner, types.ModuleType | type | type(None))
            if isinstance(x, types.BuiltinFunctionType) and bound:
                return ("method", x.__name__, self.image(owner))
            return ("constant", id(x))
        if issubclass(kind, type):
            return ("type", id(x))
        if kind is types.FunctionType and self._is_constant(x):
            return ("constant", id(x))
        number = self._seen.get(id(x))
        if number is not None:
            return ("again", number)
        self._seen[id(x)] = len(self._seen)
        self._alive.append(x)
        return (kind, *self._changeable(x, kind))

    def _changeable(self, x: Any, kind: type) -> Iterable[Hashable]:
        if self._held is not None:
            self._held(x)
        if kind in _PART_READERS:
            return _PART_READERS[kind](self, x)
        if isinstance(x, np.ndarray):
            return self._array(x)
        if isinstance(x, SymbolicGenerator | SymbolicRandomState):
            parts = {k: v for k, v in vars(x).items() if k != "stream"}
            return self._stream(x), *self._pairs(parts)
        if isinstance(x, SymbolicBitGenerator):
            sequence = x._seq and (x._seq.spent, x._seq.n_children_spawned)
            return self._stream(x), sequence
        if kind.__name__ in _ARRAY_READERS and kind.__module__.startswith(_ARRAY_MODULES):
            return _ARRAY_READERS[kind.__name__](self, x)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(x, torch.Tensor):
            return self._tensor(x, torch)
        if torch is not None and isinstance(x, torch.dtype | torch.device | torch.Size):
            return (repr(x),)
        # An object of a class written in Python: attributes, slots, what it inherits.
        bases = [base for base in kind.__mro__ if base not in _READABLE_BASES]
        if any(map(_is_compiled, bases)):
            raise UnreadableState(f"a {kind.__name__}")
        return self._attributes(x, bases)

    def _stream(self, x: Any) -> Hashable:
        """Return the sequence of a generator whose place in it makes no difference."""
        if x.stream.key is None:
            return None
        if not x.source.sequences.only_goes_on(x.stream):
            raise UnreadableState("a generator with a seed")
        return sequence_of(x.stream.key)

    def _pairs(self, x: Mapping[Any, Any]) -> Iterable[Hashable]:
        for key, value in list(x.items()):
            yield self.image(key)
            yield self.image(value)

    def _function(self, x: types.FunctionType) -> Iterable[Hashable]:
        parts = x.__defaults__, x.__kwdefaults__, x.__closure__, x.__dict__
        return (id(x.__code__), *map(self.image, parts))

    def _cell(self, x: types.CellType) -> Iterable[Hashable]:
        try:
            yield self.image(x.cell_contents)
        except ValueError:
            yield "empty"

    def _raw(self, data: bytes) -> bytes:
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            raise UnreadableState("an array of too many bytes")
        return data

    def _array(self, x: Any) -> Iterable[Hashable]:
        root = x
        while isinstance(root.base, np.ndarray):
            root = root.base
        # Two arrays over one piece of memory change together.
        place = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        shared = self._seen.setdefault(id(root), len(self._seen))
        self._alive.append(root)
        if x.nbytes > MAX_BYTES:
            raise UnreadableState("an array of too many bytes")
        plain = x.view(np.ndarray)  # an array of draws holds objects, and says otherwise
        shape = (x.dtype.str, x.shape, x.strides, shared, place)
        if plain.dtype.hasobject:
            return (*shape, *map(self.image, plain.ravel().tolist()))
        return (*shape, self._raw(x.tobytes()))

    def _jax_array(self, x: Any) -> Iterable[Hashable]:
        if x.is_deleted() or x.nbytes > MAX_BYTES:
            raise UnreadableState("an array of JAX that is deleted or has too many bytes")
        return (x.dtype.str, x.shape, self._raw(x.__array__().tobytes()))

    def _jax_key(self, x: Any) -> Iterable[Hashable]:
        return (str(x.dtype), self.image(x._base_array))

    def _mlx_array(self, x: Any) -> Iterable[Hashable]:
        if hasattr(x, "elements"):
            raise UnreadableState("an array of draws")
        if x.nbytes > MAX_BYTES:
            raise UnreadableState("an array of MLX's of too many bytes")
        return (str(x.dtype), tuple(x.shape), self._raw(repr(x.tolist()).encode()))

    def _tensor(self, x: Any, torch: Any) -> Iterable[Hashable]:
        with torch._C.DisableTorchFunction():
            if x.numel() * x.element_size() > MAX_BYTES or x.device.type == "meta":
                raise UnreadableState("a tensor of too many bytes")
            storage = x.untyped_storage().data_ptr()
            # Two tensors over one piece of memory change together.
            shared = self._seen.setdefault(-storage, len(self._seen))
            plain = x.detach().cpu().contiguous().reshape(-1)
            if plain.is_floating_point() and bool(torch.isnan(plain).any()):
                raise UnreadableState("a tensor that may hold draws")
            if not (plain.is_floating_point() or plain.dtype is torch.bool) and plain.numel():
                lowest = torch.iinfo(plain.dtype).min if not plain.is_complex() else None
                if lowest and bool((plain == lowest).any()):
                    raise UnreadableState("a tensor that may hold draws")
            data = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        place = tuple(x.shape), x.stride(), x.storage_offset()
        return (str(x.dtype), *place, shared, self._raw(data))

    def _attributes(self, x: Any, bases: list[type]) -> Iterable[Hashable]:
        if isinstance(x, dict):
            yield from self._pairs(dict(dict.items(x)))
        elif isinstance(x, list | tuple | set | frozenset | collections.deque):
            base: Any = type(x).__mro__[len(bases)]
            yield from map(self.image, base.__iter__(x))
        elif isinstance(x, int | str | bytes | float):
            yield repr(x)
        elif isinstance(x, BaseException):
            yield self.image(x.args)
        for name in _slot_names(bases):
            yield name
            yield self.image(getattr(x, name, None))
        attributes = attributes_of(x)
        if attributes is not None:
            yield self.image(attributes)


def _slot_names(kinds: Iterable[type]) -> list[str]:
    return [
        name
        for kind in kinds
        for name, slot in vars(kind).items()
        if isinstance(slot, types.MemberDescriptorType)
    ]


def _memo_parts(_: StateReader, x: Any) -> Iterable[Hashable]:
    # What it remembers is not seen: one that remembers nothing is like any other.
    if x.cache_info().currsize:
        raise UnreadableState("a cache")
    return (id(x.__wrapped__),)


@functools.cache
def _is_compiled(kind: type) -> bool:
    """Whether a class is written in C: its objects may hold what no attribute shows."""
    return any(
        isinstance(x, types.MethodDescriptorType | types.WrapperDescriptorType)
        and x.__objclass__ is kind
        for x in vars(kind).values()
    ) or isinstance(vars(kind).get("__new__"), types.BuiltinFunctionType)


_PART_READERS: dict[type, Callable[[StateReader, Any], Iterable[Hashable]]] = {
    **dict.fromkeys((dict, types.MappingProxyType, collections.OrderedDict), StateReader._pairs),
    **dict.fromkeys((list, set, frozenset), lambda reader, x: map(reader.image, x)),
    **dict.fromkeys(_LOCK_TYPES, lambda reader, x: ()),
    BoundNames: lambda reader, x: map(reader.image, x.values()),
    types.FunctionType: StateReader._function,
    types.CellType: StateReader._cell,
    types.MethodType: lambda reader, x: (*map(reader.image, (x.__func__, x.__self__)),),
    functools.partial: lambda reader, x: (
        *map(reader.image, (x.func, x.args, x.keywords, x.__dict__)),
    ),
    array.array: lambda reader, x: (x.typecode, reader._raw(x.tobytes())),
    weakref.ReferenceType: lambda reader, x: (reader.image(x()),),
    collections.deque: lambda reader, x: (x.maxlen, *map(reader.image, x)),
    collections.defaultdict: lambda reader, x: (reader.image(x.default_factory), *reader._pairs(x)),
    _LRU_CACHE_TYPE: _memo_parts,
}

_ARRAY_READERS: dict[str, Callable[[StateReader, Any], Iterable[Hashable]]] = {
    "ArrayImpl": StateReader._jax_array,
    "PRNGKeyArray": StateReader._jax_key,
    "array": StateReader._mlx_array,
}
"""By name, of classes of JAX, jaxlib and MLX, which need not be loaded."""

_ARRAY_MODULES = ("jax.", "jaxlib.", "mlx.core")


# Restores what code held before it was followed, as it may keep draws, which are no numbers.


def restore_contents(x: Any, held: Any) -> None:
    """Let an object hold again what :class:`HiddenState` saw in it, where it can be written."""
    if type(x) is BoundNames:
        for name, value in zip(x.names, held, strict=True):
            if name not in x.space or x.space[name] is value:
                continue
            if x.owner is not None:
                setattr(x.owner, name, value)
            elif isinstance(x.space, dict):
                x.space[name] = value
    elif isinstance(x, dict):
        count = (len(held) - 1) // 2
        x.clear()
        x.update(zip(held[:count], held[count : 2 * count], strict=True))
    elif isinstance(x, list):
        x[:] = held
    elif isinstance(x, set | collections.deque):
        x.clear()
        (x.update if isinstance(x, set) else x.extend)(held)
    elif isinstance(x, types.CellType) and held:
        x.cell_contents = held[0]
    elif isinstance(x, functools.partial):
        partial_object: Any = x  # whose attributes are read-only
        partial_object.__setstate__(tuple(held))
    elif isinstance(x, np.ndarray) and x.view(np.ndarray).dtype.hasobject:
        for place, item in zip(np.ndindex(x.shape), held, strict=False):
            x[place] = item
    elif isinstance(held, list):
        # What is in its attributes is held by their dictionary, which is an object of its own.
        for name, item in zip(slots_of(x), held, strict=False):
            if name != "__dict__":
                setattr(x, name, item)


def attributes_of(x: Any) -> Any:
    """Return an object's dictionary without asking the object, which may raise; None without."""
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None


def slots_of(x: Any) -> tuple[str, ...]:
    """Return the names of an object's slots, with that of its dictionary; none without slots."""
    slots = _slot_names(type(x).__mro__)
    # By its classes: an object may raise at any name.
    has_attributes = any("__dict__" in vars(kind) for kind in type(x).__mro__)
    return tuple([*slots, "__dict__"] if slots and has_attributes else slots)


# Hidden state: what code keeps from one call to the next, in its object and around it.
#
# An object that is built anew is read whole each time. What outlives it (globals that the code
# names, closures, defaults, attributes of functions, classes and modules) is read once; after
# that every thing in it that can be changed in place is only looked at, because it hardly ever
# changes: if all of them hold what they held, so does the whole.


_MISSING = object()

UNCHANGED_STATE = (None, None)
"""The image of code that keeps what it kept at the start."""

_MAX_SEARCHED_ITEMS = 64
"""Lists of more items are not searched for functions; their items are read all the same."""


_ENVIRONMENT = frozenset({"environ", "getenv", "putenv"})


class HiddenState:
    """What ``code`` keeps, with its generator ``rng``; ``reason``: why nothing can be compared."""

    def __init__(self, code: Any, rng: Any) -> None:
        self._roots = [rng, *reachable_state(code)]
        self._known: list[tuple[Any, Callable[[], Any], Any]] = []
        self.reason = ""
        self._root = unwrap(code)
        try:
            self._outside = StateReader(self._note, self._is_constant).image(self._roots)
        except UnreadableState as error:
            self.reason = str(error)

    def image(self, instance: Any = None, *, known: bool = True) -> Hashable:
        """Return what is kept now; something equal to nothing where it cannot be read.

        ``instance``: the rule's object, where it is built for each generation. ``known``: false
        where more is kept, which is not the code's, as draws that will come again.
        """
        if self.reason or not known:
            return NeverEqual()
        try:
            reader = StateReader(None, self._is_constant)
            inside = None if instance is None else reader.image(instance)
            if all(_is_unchanged(held, look()) for _, look, held in self._known):
                return inside, None
            outside = StateReader(None, self._is_constant).image(self._roots)
        except UnreadableState:
            return NeverEqual()
        return inside, None if outside == self._outside else outside

    def _is_constant(self, function: types.FunctionType) -> bool:
        return not _is_user_function(function, self._root)

    def _note(self, x: Any) -> None:
        if (look := _content_reader(x)) is not None:
            self._known.append((x, look, look()))

    def put_back(self) -> bool:
        """Let everything hold what it held at the start; false where that was not read whole."""
        if self.reason:
            return False
        for x, look, held in self._known:
            if not _is_unchanged(held, look()):
                restore_contents(x, held)
        return True


class NeverEqual:
    """Equal to itself alone."""


def _content_reader(x: Any) -> Callable[[], Any] | None:
    """Return what looks at what an object holds, one level deep; None if that cannot change."""
    kind = type(x)
    if kind is BoundNames:
        return x.values  # type: ignore[no-any-return]
    if isinstance(x, dict):
        return lambda: [*dict.keys(x), *dict.values(x), getattr(x, "default_factory", None)]
    if isinstance(x, list | set | frozenset | collections.deque):
        return lambda: list(x)
    if isinstance(x, np.ndarray):
        if x.view(np.ndarray).dtype.hasobject:
            return lambda: [*x.flat, *x.shape]
        return lambda: (x.shape, x.strides, x.tobytes())
    if kind is types.FunctionType:
        return partial(_attribute_values, x, ("__code__", "__defaults__", "__kwdefaults__"))
    if kind is types.CellType:
        return partial(_cell_values, x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return lambda: StateReader().image(x)
    if kind is array.array:
        return x.tobytes  # type: ignore[no-any-return]
    if isinstance(x, BaseException):
        return lambda: list(x.args)
    if isinstance(x, functools.partial):
        return lambda: [x.func, x.args, x.keywords, x.__dict__]
    # By its type: an object may answer any name, or raise at one.
    if isinstance(x, _LRU_CACHE_TYPE):
        return lambda: x.cache_info()
    names = slots_of(x)
    return partial(_attribute_values, x, names) if names else None


def _attribute_values(x: Any, names: tuple[str, ...]) -> list[Any]:
    return [getattr(x, name, None) for name in names]


def _cell_values(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _is_unchanged(before: Any, now: Any) -> bool:
    if not isinstance(before, list):
        return bool(before == now)
    return len(before) == len(now) and all(map(operator.is_, before, now))


def reachable_state(code: Any) -> list[Any]:
    """Return what the code's functions may read or write by name, and the code itself.

    Names are taken from the bytecode: globals, attributes of the user's modules and classes, and
    those that the code itself hangs on a library's module; and the environment of the process.
    What is reached in other ways is not seen: ``globals()``, files.
    """
    root = unwrap(code)
    functions: dict[int, types.FunctionType] = {}
    spaces: dict[int, Mapping[str, Any]] = {}
    classes: dict[int, type] = {}
    libraries: dict[int, types.ModuleType] = {}
    used, seen, waiting = set[str](), set[int](), [root, code]
    while waiting:
        x = waiting.pop()
        if id(x) not in seen and not issubclass(type(x), weakref.ProxyTypes):
            seen.add(id(x))
            if isinstance(x, types.FunctionType):
                if _is_user_function(x, root):
                    functions[id(x)] = x
                    used.update(*(part.co_names for part in nested_code(x.__code__)))
                    spaces[id(x.__globals__)] = x.__globals__
                    waiting += [y for cell in x.__closure__ or () for y in _cell_values(cell)]
            elif inspect.isclass(x):
                if is_users_module(x.__module__):
                    classes[id(x)] = x
                    waiting += [*vars(x).values(), *x.__mro__[1:]]
            elif isinstance(x, types.ModuleType):
                if x is sys.modules.get(x.__name__) and _is_user_module(x, root):
                    spaces[id(vars(x))] = vars(x)
                else:
                    libraries[id(x)] = x
            else:
                waiting += _referenced_objects(x)
        if not waiting:
            waiting = [
                value
                for space in list(spaces.values())
                for name in used & space.keys()
                if id(value := space[name]) not in seen
            ]
            waiting += [m for name in used if (m := sys.modules.get(name)) and id(m) not in seen]
    attached = {
        str(step.argval)
        for x in functions.values()
        for part in nested_code(x.__code__)
        for step in dis.get_instructions(part)
        if step.opname == "STORE_ATTR"
    }
    return [
        code,
        *([os.environ._data] if used & _ENVIRONMENT else ()),  # type: ignore[attr-defined]
        *(
            BoundNames(vars(x), filter(partial(_is_attached_value, x), attached))
            for x in libraries.values()
        ),
        *(BoundNames(space, used) for space in spaces.values()),
        *(BoundNames(vars(x), {*vars(x), *used} - _COMMON_ATTRIBUTES, x) for x in classes.values()),
        *functions.values(),
    ]


_COMMON_ATTRIBUTES = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "_abc_impl"})


def _referenced_objects(x: Any) -> list[Any]:
    """Return what an object that is neither function, class nor module leads on to."""
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, staticmethod | classmethod | property):
        return [x.fget, x.fset] if isinstance(x, property) else [x.__func__]
    # Without asking the object, which may answer any name, or raise at it.
    if inspect.getattr_static(x, "__wrapped__", _MISSING) is not _MISSING:
        return [x.__wrapped__]
    kind = type(x)
    attributes = attributes_of(x)
    if isinstance(attributes, dict) and not is_library(kind.__module__):
        return [kind, *attributes.values()]
    return list(x) if isinstance(x, list | tuple) and len(x) <= _MAX_SEARCHED_ITEMS else []


def _is_attached_value(module: types.ModuleType, name: str) -> bool:
    """Whether a name may be the code's own on a library's module, which has others."""
    value = vars(module).get(name)
    return not callable(value) and not isinstance(value, types.ModuleType)


def _is_user_function(function: types.FunctionType, root: Any) -> bool:
    return is_user_function(function, root) and not is_machinery(function.__module__ or "")


def _is_user_module(module: types.ModuleType, root: Any) -> bool:
    name = module.__name__
    if not is_users_module(name):
        return False
    same = name.partition(".")[0] == (getattr(root, "__module__", None) or "").partition(".")[0]
    return same or is_user_file(getattr(module, "__file__", None) or "<none>")

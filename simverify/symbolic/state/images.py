"""What a value is, in a form that can be compared: equal images behave alike.

Code may carry anything from one call to the next. Two calls that begin after the same tokens
with equal images of all that was carried have one law, so only one of them need be run. An
image is a nest of tuples: the values of numbers, strings, arrays and tensors, the contents of
containers in their order, the attributes, slots and closures of objects, and which of them are
the same object. Whatever a look from outside cannot read raises :class:`Unreadable`: a draw
that is not decided yet, a running generator, an object of compiled code.
"""

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.generators.numpy.rng import SymbolicGenerator, SymbolicRandomState

MAX_PARTS = 20_000
"""A value of more parts is not read: that would take longer than to run a call again."""

MAX_BYTES = 1 << 20
"""The same for the bytes of arrays."""

_ATOMS = frozenset({
    int, str, bytes, bool, complex, type(None), type(...), type(NotImplemented), range,
    decimal.Decimal, fractions.Fraction, datetime.date, datetime.datetime, datetime.timedelta,
    pathlib.PosixPath, pathlib.PurePosixPath,
})  # fmt: skip
_CONSTANTS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.CodeType, types.ModuleType,
    types.MethodWrapperType, types.ClassMethodDescriptorType, re.Pattern, np.dtype, np.ufunc,
    staticmethod, classmethod, property, functools.cached_property, types.GenericAlias,
    functools.singledispatchmethod,
)  # fmt: skip
"""What nothing can be kept in: one object is one value."""

_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_BASES = (
    object, types.SimpleNamespace, dict, list, tuple, set, frozenset, collections.deque,
    collections.OrderedDict, int, str, float, bytes, BaseException, Exception,
)  # fmt: skip
"""What a class written in Python may inherit of those that are not."""


class Names:
    """Some names of a module or class; read as what they are bound to now.

    ``owner``: the class, whose names are written by it alone.
    """

    def __init__(
        self, space: Mapping[str, Any], names: Iterable[str], owner: type | None = None
    ) -> None:
        self.space = space
        self.names = sorted(names)
        self.owner = owner

    def values(self) -> list[Any]:
        """Return the values, None for a name that is not bound."""
        return [self.space.get(name) for name in self.names]


class Unreadable(Exception):
    """A value whose state cannot be read from outside."""


class Reader:
    """Reads values into images; objects that it meets twice are told to be the same.

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
        """Return the image of one value; :class:`Unreadable` if it has none."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Unreadable("a value of too many parts")
        kind = type(x)
        if kind in _ATOMS:
            return (kind, x)
        if kind is float:
            return (kind, x.hex())
        if kind is tuple:
            return (kind, *map(self.image, x))
        if issubclass(kind, np.generic):
            return (kind, x.tobytes())
        if issubclass(kind, Draw):
            # It passes for a float, and its value is none.
            raise Unreadable("a draw")
        if issubclass(kind, _CONSTANTS) or (issubclass(kind, enum.Enum)):
            return self._constant(x)
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

    def _constant(self, x: Any) -> Hashable:
        owner = getattr(x, "__self__", None)
        if isinstance(x, types.BuiltinFunctionType) and not isinstance(
            owner, types.ModuleType | type | type(None)
        ):
            return ("method", x.__name__, self.image(owner))
        return ("constant", id(x))

    def _changeable(self, x: Any, kind: type) -> Iterable[Hashable]:
        if self._held is not None:
            self._held(x)
        if kind is dict or kind is types.MappingProxyType:
            return self._pairs(x)
        if kind in (list, set, frozenset):
            return map(self.image, x)
        if kind is Names:
            return map(self.image, x.values())
        if kind is types.FunctionType:
            return self._function(x)
        if kind is types.MethodType:
            return (self.image(x.__func__), self.image(x.__self__))
        if kind is types.CellType:
            return self._cell(x)
        if kind is functools.partial:
            return (self.image(x.func), self.image(x.args), self.image(x.keywords))
        if isinstance(x, np.ndarray):
            return self._array(x)
        if kind is array.array:
            return (x.typecode, self._raw(x.tobytes()))
        if kind in _LOCKS:
            return ()
        if kind is weakref.ReferenceType:
            return (self.image(x()),)
        if isinstance(x, SymbolicGenerator | SymbolicRandomState):
            return self._generator(x)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(x, torch.Tensor):
            return self._tensor(x, torch)
        if torch is not None and isinstance(x, torch.dtype | torch.device | torch.Size):
            return (repr(x),)
        return self._object(x, kind)

    def _pairs(self, x: Mapping[Any, Any]) -> Iterable[Hashable]:
        for key, value in list(x.items()):
            yield self.image(key)
            yield self.image(value)

    def _function(self, x: types.FunctionType) -> Iterable[Hashable]:
        yield id(x.__code__)
        yield self.image(x.__defaults__)
        yield self.image(x.__kwdefaults__)
        yield self.image(x.__closure__)
        yield self.image(x.__dict__)

    def _cell(self, x: types.CellType) -> Iterable[Hashable]:
        try:
            yield self.image(x.cell_contents)
        except ValueError:
            yield "empty"

    def _raw(self, data: bytes) -> bytes:
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            raise Unreadable("an array of too many bytes")
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
            raise Unreadable("an array of too many bytes")
        shape = (x.dtype.str, x.shape, x.strides, shared, place)
        if x.dtype.hasobject:
            plain = x.view(np.ndarray)
            return (*shape, *map(self.image, plain.ravel().tolist()))
        return (*shape, self._raw(x.tobytes()))

    def _tensor(self, x: Any, torch: Any) -> Iterable[Hashable]:
        with torch._C.DisableTorchFunction():
            if x.numel() * x.element_size() > MAX_BYTES or x.device.type == "meta":
                raise Unreadable("a tensor of too many bytes")
            storage = x.untyped_storage().data_ptr()
            # Two tensors over one piece of memory change together.
            shared = self._seen.setdefault(-storage, len(self._seen))
            plain = x.detach().cpu().contiguous().reshape(-1)
            if plain.is_floating_point() and bool(torch.isnan(plain).any()):
                raise Unreadable("a tensor that may hold draws")
            if not (plain.is_floating_point() or plain.dtype is torch.bool) and plain.numel():
                lowest = torch.iinfo(plain.dtype).min if not plain.is_complex() else None
                if lowest and bool((plain == lowest).any()):
                    raise Unreadable("a tensor that may hold draws")
            data = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        return (
            str(x.dtype), tuple(x.shape), x.stride(), x.storage_offset(), shared, self._raw(data),
        )  # fmt: skip

    def _generator(self, x: Any) -> Iterable[Hashable]:
        if x.stream.key is not None:
            raise Unreadable("a generator with a seed")
        return self._pairs({k: v for k, v in vars(x).items() if k != "stream"})

    def _object(self, x: Any, kind: type) -> Iterable[Hashable]:
        """Read an object of a class written in Python: attributes, slots, what it inherits."""
        if kind in _KNOWN:
            return _KNOWN[kind](self, x)
        own = [base for base in kind.__mro__ if base not in _BASES]
        if any(map(_is_compiled, own)):
            raise Unreadable(f"a {kind.__name__}")
        return self._attributes(x, own)

    def _attributes(self, x: Any, own: list[type]) -> Iterable[Hashable]:
        if isinstance(x, dict):
            yield from self._pairs(dict(dict.items(x)))
        elif isinstance(x, list | tuple | set | frozenset | collections.deque):
            base: Any = type(x).__mro__[len(own)]
            yield from map(self.image, base.__iter__(x))
        elif isinstance(x, int | str | bytes | float):
            yield repr(x)
        elif isinstance(x, BaseException):
            yield self.image(x.args)
        for base in own:
            for name, slot in vars(base).items():
                if isinstance(slot, types.MemberDescriptorType):
                    yield name
                    yield self.image(getattr(x, name, None))
        attributes = getattr(x, "__dict__", None)
        if attributes is not None:
            yield self.image(attributes)


def _deque(reader: Reader, x: Any) -> Iterable[Hashable]:
    yield x.maxlen
    yield from map(reader.image, x)


def _memo(_: Reader, x: Any) -> Iterable[Hashable]:
    # What it remembers is not seen: one that remembers nothing is like any other.
    if x.cache_info().currsize:
        raise Unreadable("a cache")
    return (id(x.__wrapped__),)


@functools.cache
def _is_compiled(kind: type) -> bool:
    """Whether a class is written in C: its objects may hold what no attribute shows."""
    return any(
        isinstance(x, types.MethodDescriptorType | types.WrapperDescriptorType)
        and x.__objclass__ is kind
        for x in vars(kind).values()
    ) or isinstance(vars(kind).get("__new__"), types.BuiltinFunctionType)


_KNOWN: dict[type, Callable[[Reader, Any], Iterable[Hashable]]] = {
    collections.deque: _deque,
    type(functools.lru_cache(_deque)): _memo,
    collections.defaultdict: lambda reader, x: (reader.image(x.default_factory), *reader._pairs(x)),
    collections.OrderedDict: lambda reader, x: reader._pairs(x),
}

"""Names for which the code under audit finds stand-ins: builtins, and what it takes from a module.

A draw passes for a float by its ``__class__``, and ``type(u) is float`` asks past that; so ``type``
is among them, and gives the stand-in for a type where there is one.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.several.winners import Winner
from simverify.symbolic.draws.whole.mixed import Mixed
from simverify.symbolic.whose import namespaces


class Twin(ModuleType):
    """A module as the code sees it: some names are others, the rest are the module's own."""

    def __init__(self, module: ModuleType, names: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Builtins:
    """The builtins that are shadowed in the modules of the code, and names in twins of modules."""

    def __init__(self) -> None:
        self._shadowed: list[tuple[dict[str, Any], str, type]] = []

    def replace(self, code: Any, twins: dict[str, type], stack: ExitStack) -> None:
        """Shadow each that is named until ``stack`` closes."""
        for namespace in namespaces(code):
            for name, twin in twins.items():
                if name not in namespace:
                    namespace[name] = twin
                    self._shadowed.append((namespace, name, twin))
        stack.callback(self._put_back)

    def replace_in(self, module: Twin, names: dict[str, Any], stack: ExitStack) -> None:
        """Note names of a module's twin that draws need, and numbers do not."""
        self._shadowed += [(vars(module), name, twin) for name, twin in names.items()]
        stack.callback(self._put_back)

    def _put_back(self) -> None:
        for namespace, name, _ in self._shadowed:
            namespace.pop(name, None)
        self._shadowed.clear()

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Give the code the real ones inside: a stand-in is not ``type(1) is int``."""
        for namespace, name, _ in self._shadowed:
            namespace.pop(name, None)
        try:
            yield
        finally:
            for namespace, name, twin in self._shadowed:
                namespace[name] = twin


class Alike(type):
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


class _LikeType(type):
    twins: dict[type, type]

    def __call__(cls, *parts: Any, **names: Any) -> Any:
        if "twins" not in vars(cls):
            return super().__call__(*parts, **names)  # a class of classes, which the code made
        if len(parts) != 1:
            return type(*parts, **names)
        x = parts[0]
        if x is cls or issubclass(type(x), Alike):
            return cls
        kind = x.__class__ if isinstance(x, Draw | Winner | Mixed) else type(x)
        return cls.twins.get(kind, kind)

    def __getitem__(cls, item: Any) -> Any:
        return type[item]

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, type)


def type_twin(twins: dict[type, type]) -> type:
    """Return what stands for ``type``; ``twins`` stand for the names of some types."""
    return _LikeType("type", (type,), {"twins": twins})

"""Modules that have every attribute, for what an engine imports and its verifier does not use."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Anything(ModuleType):
    """A module whose every attribute is a class that takes any arguments."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None)
        self.__file__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda self, *values, **named: None})
        setattr(self, name, made)
        return made


@contextmanager
def stubs(*names: str) -> Iterator[None]:
    """Put a stub in the place of each named module that is not loaded yet, inside the block.

    ``a.b.c`` stands for its parents too. What is loaded in the block keeps what it took of them.
    """
    parts = {
        ".".join(name.split(".")[: i + 1]) for name in names for i in range(name.count(".") + 1)
    }
    ours = {name: Anything(name) for name in sorted(parts) if name not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name, stub in ours.items():
            if sys.modules.get(name) is stub:
                del sys.modules[name]

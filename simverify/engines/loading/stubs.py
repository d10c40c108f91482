"""What stands for a module: one that has every attribute, or another one but for some names."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
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


class Changed:
    """A module, which is imported when it is asked for a name, but for the names that are given."""

    def __init__(self, module: str, **names: Any) -> None:
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        """Return what the module has at this time: an audit may have put something in its place."""
        module = sys.modules.get(self._module)
        return getattr(module or importlib.import_module(self._module), name)


torch: Any = Changed("torch")
"""Torch for adapters, imported at its first use: to list engines takes none."""


def unpinned() -> Changed:
    """Return torch whose new tensors are not pinned in memory, which asks for an accelerator."""

    def make(name: str) -> Any:
        def made(*given: Any, pin_memory: bool = False, **options: Any) -> Any:
            return getattr(torch, name)(*given, **options)

        return made

    return Changed("torch", **{n: make(n) for n in ("tensor", "arange", "ones", "zeros", "full")})


def unseeded() -> Changed:
    """Return torch whose generators are the global one: nobody seeds it."""
    return Changed(
        "torch",
        Generator=lambda device=None: SimpleNamespace(manual_seed=lambda seed: None),
        rand=lambda size, generator=None, device=None: torch.rand(size),
    )

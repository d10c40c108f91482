"""Finds the names in the user's modules that are bound to sources of randomness."""

import functools
import inspect
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

Replacement = Callable[[Any], Any]

_LIBRARY_FOLDERS = tuple(
    {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    - {sysconfig.get_paths()["data"], sysconfig.get_paths()["scripts"]}
)
_PACKAGES = {"site-packages", "dist-packages"}
_ADAPTER = "simverify.engines.adapt"
"""Rounds rows for the code that it wraps, wherever it is installed."""

_NEVER = ("numpy", "scipy", "torch", "simverify.audit", "numba", "_pytest", "pytest")


def replace_names(code: Any, replacement: Replacement, stack: ExitStack) -> None:
    """Rebind, until ``stack`` closes, every name for which ``replacement`` gives a value.

    Looked at: globals, classes, defaults and closures of the modules that belong to
    ``code`` (its own, its package's, and whatever is loaded from outside the library
    folders), and the attributes of ``code`` itself if it is an object.
    """
    seen: set[int] = set()
    for namespace in namespaces(code):
        for name, value in list(namespace.items()):
            new = replacement(value)
            if new is not None:
                namespace[name] = new
                stack.callback(namespace.__setitem__, name, value)
            else:
                _inside(value, replacement, stack, seen, namespace.get("__name__"))
    _inside(code, replacement, stack, seen, None)


def _inside(
    value: Any, replacement: Replacement, stack: ExitStack, seen: set[int], module: str | None
) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            _inside(part, replacement, stack, seen, None)
    elif inspect.ismethod(value):
        _inside(value.__func__, replacement, stack, seen, None)
        _inside(value.__self__, replacement, stack, seen, None)
    elif isinstance(value, FunctionType):
        if module is None or value.__module__ == module:
            _function(value, replacement, stack, seen)
    elif inspect.isclass(value):
        if (module is None or value.__module__ == module) and value.__module__ != "builtins":
            for name, item in list(vars(value).items()):
                new = replacement(item)
                if new is not None:
                    setattr(value, name, new)
                    stack.callback(setattr, value, name, item)
                elif isinstance(item, FunctionType):
                    _function(item, replacement, stack, seen)
    elif module is None and isinstance(getattr(value, "__dict__", None), dict):
        if isinstance(value, ModuleType):
            return
        for name, item in list(vars(value).items()):
            new = replacement(item)
            if new is not None:
                vars(value)[name] = new
                stack.callback(vars(value).__setitem__, name, item)
        _inside(type(value), replacement, stack, seen, None)


def _function(
    function: FunctionType, replacement: Replacement, stack: ExitStack, seen: set[int]
) -> None:
    if function.__defaults__:
        old = function.__defaults__
        new = tuple(_or_itself(replacement, x) for x in old)
        if any(x is not y for x, y in zip(old, new, strict=True)):
            function.__defaults__ = new
            stack.callback(setattr, function, "__defaults__", old)
    keywords = function.__kwdefaults__ or {}
    for name, value in list(keywords.items()):
        other = replacement(value)
        if other is not None:
            keywords[name] = other
            stack.callback(keywords.__setitem__, name, value)
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        other = replacement(value)
        if other is not None:
            cell.cell_contents = other
            stack.callback(setattr, cell, "cell_contents", value)
        else:
            _inside(value, replacement, stack, seen, None)


def _or_itself(replacement: Replacement, value: Any) -> Any:
    new = replacement(value)
    return value if new is None else new


def namespaces(code: Any) -> Iterator[dict[str, Any]]:
    """Yield the globals of the modules that belong to the code."""
    own = unwrapped(code)
    found: set[int] = set()
    spaces = getattr(own, "__globals__", None)
    if isinstance(spaces, dict):
        found.add(id(spaces))
        yield spaces
    package = (getattr(own, "__module__", None) or type(own).__module__).split(".")[0]
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name.split(".")[0] in sys.stdlib_module_names:
            continue
        mine = name in (getattr(own, "__module__", None), _ADAPTER) or (
            name.split(".")[0] == package and package != "__main__" and not _is_huge(package)
        )
        if (mine or _outside_libraries(module)) and not name.startswith(_NEVER):
            space = vars(module)
            if id(space) not in found:
                found.add(id(space))
                yield space


def unwrapped(code: Any) -> Any:
    """Return what partial objects, decorators and bound methods wrap."""
    while isinstance(code, functools.partial):
        code = code.func
    code = inspect.unwrap(code) if callable(code) else code
    return getattr(code, "__func__", code)


def is_users(function: FunctionType, own: Any) -> bool:
    """Whether a function belongs to the package of ``own`` or to no installed one."""
    package = (getattr(own, "__module__", None) or "").split(".")[0]
    same = (function.__module__ or "").split(".")[0] == package
    return same or _outside(function.__code__.co_filename)


def _is_huge(package: str) -> bool:
    # Thousands of lazily loaded modules; only the function's own is looked at.
    return package in ("transformers", "vllm", "sglang")


@functools.cache
def _outside(file: str) -> bool:
    # The second for the packages of another Python that this one can see.
    return not (file.startswith(_LIBRARY_FOLDERS) or _PACKAGES.intersection(Path(file).parts))


def _outside_libraries(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and _outside(file)

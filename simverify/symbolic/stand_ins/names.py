"""Finds the modules that are the user's, among all that are loaded."""

import functools
import inspect
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_LIBRARY_FOLDERS = tuple(
    {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    - {sysconfig.get_paths()["data"], sysconfig.get_paths()["scripts"]}
)
_PACKAGES = {"site-packages", "dist-packages"}
_ADAPTER = "simverify.engines.adapt"
"""Rounds rows for the code that it wraps, wherever it is installed."""

_NEVER = (
    *("numpy", "scipy", "torch", "numba", "_pytest", "pytest"),
    *("simverify.symbolic", "simverify.auditing", "simverify.battery", "simverify.emitted"),
)


def namespaces(code: Any) -> Iterator[dict[str, Any]]:
    """Yield the globals of the modules that belong to the code."""
    own = unwrapped(code)
    found: set[int] = set()
    spaces = getattr(own, "__globals__", None)
    if isinstance(spaces, dict):
        found.add(id(spaces))
        yield spaces
    home = getattr(own, "__module__", None)
    package = (home or type(own).__module__).split(".")[0]
    whole = package != "__main__" and not _is_huge(package)
    for name, module in list(sys.modules.items()):
        mine = name == home or (whole and name.split(".")[0] == package)
        if _LIBRARIES.get(name) is module and not mine:
            continue
        if not isinstance(module, ModuleType) or not (mine or _may_be_users(name, module)):
            _LIBRARIES[name] = module
        elif not name.startswith(_NEVER) and name.split(".")[0] not in sys.stdlib_module_names:
            space = vars(module)
            if id(space) not in found:
                found.add(id(space))
                yield space


_LIBRARIES: dict[str, Any] = {}
"""Modules that belong to no code but their own: sessions load thousands."""


def _may_be_users(name: str, module: ModuleType) -> bool:
    if name.startswith(_NEVER) or name.split(".")[0] in sys.stdlib_module_names:
        return False
    return name == _ADAPTER or _outside_libraries(module)


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

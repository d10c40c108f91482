"""Whose code it is: this package's machinery, a library's, or the code's under audit.

Asked of the frame that runs, and of the modules that are loaded.
"""

import functools
import inspect
import operator
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeVar

from simverify.roles import folders, role_of_file, role_of_module

_OF_ADAPTERS = ("adapter", "wrapper", "kernels")
"""Roles of what is round rows for the code that it wraps."""

_NOT_CALLED = ("machinery", "interface", "stand-in")
"""Roles of what neither is on trial nor is called by what is."""

_LIBRARIES = frozenset({"numba", "numpy", "scipy", "torch"}) | sys.stdlib_module_names


def is_ours(module: str) -> bool:
    """Whether a module of that dotted name is this package's own machinery."""
    return role_of_module(module) not in (None, "under test")


def is_library(module: str) -> bool:
    """Whether a module of that dotted name belongs to Python or to what draws are made with."""
    return module.partition(".")[0] in _LIBRARIES


_ON_TRIAL_FILES: set[str] = set()


def portable(place: str) -> str:
    """Return a file, or ``file:line``, as it is named on any machine.

    One of an installed package is named from the package's own folder on.
    """
    home = next(iter(folders().values()))
    if place.startswith(f"{home}{os.sep}"):
        return place.removeprefix(f"{home.parent}{os.sep}")
    root = max((root for root in _ROOTS if place.startswith(root)), key=len, default="")
    return place.removeprefix(root)


def put_on_trial(path: Path) -> None:
    """Count a source file as code under audit from now on, though it is an installed one's.

    An engine's functions are audited from the package that they came in; the rest of the package
    stays a library.
    """
    _ON_TRIAL_FILES.add(str(path))


def on_trial(file: str | None) -> bool:
    """Whether a source file was put on trial."""
    return file in _ON_TRIAL_FILES


def is_adapters(file: str) -> bool:
    """Whether a source file is an adapter, which is neither machinery nor on trial itself."""
    return role_of_file(file) in _OF_ADAPTERS


def runs_kernels(file: str) -> bool:
    """Whether a source file is of what runs kernels: machinery that goes with the adapters."""
    return role_of_file(file) == "kernels"


def is_users_file(file: str) -> bool:
    """Whether a source file can be the code's under audit: neither ours nor an installed one."""
    if on_trial(file):
        return True
    installed = "site-packages" in file or "/lib/python3" in file or file.startswith("<")
    return not installed and role_of_file(file) in (None, "under test")


_Function = TypeVar("_Function", bound=Callable[..., Any])
_BOUNDARIES: set[int] = set()


def boundary(function: _Function) -> _Function:
    """Mark what runs the code under audit: whoever called it is none of that code."""
    _BOUNDARIES.add(id(function.__code__))
    return function


def is_boundary(code: CodeType) -> bool:
    """Whether the code of a frame is that of a :func:`boundary`."""
    return id(code) in _BOUNDARIES


def users_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not is_ours(module) and not is_library(module):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if is_boundary(frame.f_code):
            return ""
        frame = frame.f_back
    return ""


_MOST_CALLERS = 3
"""Lines that are named of those that called the one that raised."""


def user_lines(error: BaseException) -> tuple[str, ...]:
    """``file:line`` of the user code in the traceback: where it raised, then what called that."""
    trace = error.__traceback__
    found: dict[str, None] = {}
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        module = trace.tb_frame.f_globals.get("__name__", "")
        if is_users_file(file) and not (is_ours(module) or is_library(module)):
            place = f"{file}:{trace.tb_lineno}"
            found.pop(place, None)  # code that calls itself is named where it did so last
            found[place] = None
        trace = trace.tb_next
    return tuple(reversed(found))


def user_line(error: BaseException) -> str:
    """`` (file:line)`` of the innermost user code in the traceback, or nothing."""
    found = user_lines(error)
    return f" ({found[0]})" if found else ""


def raised_at(error: BaseException) -> str:
    """`` (file:line, called at file:line, file:line)``, from where it raised outwards, or nothing.

    The nearest callers, if there are many.
    """
    found = user_lines(error)
    if not found:
        return ""
    callers = ", ".join(found[1 : _MOST_CALLERS + 1])
    return f" ({found[0]}, called at {callers})" if callers else f" ({found[0]})"


def lines_in(text: str) -> tuple[str, ...]:
    """Return each ``file:line`` that :func:`raised_at` put into a text last; none if it did not."""
    found: tuple[str, ...] = ()
    for inside in re.findall(r"\(([^()]+:\d+)\)", text):
        places = re.findall(r"(.+?:\d+)(?:, |$)", inside.replace(", called at ", ", "))
        files = [place.rpartition(":")[0] for place in places]
        if all(Path(file).is_file() for file in files):
            found = tuple(map(portable, places))
    return found


_LIBRARY_FOLDERS = tuple(
    {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    - {sysconfig.get_paths()["data"], sysconfig.get_paths()["scripts"]}
)
_ROOTS = tuple(f"{folder}{os.sep}" for folder in _LIBRARY_FOLDERS)
_PACKAGES = {"site-packages", "dist-packages"}
_NEVER = ("numpy", "scipy", "torch", "numba", "_pytest", "pytest")


def namespaces(code: Any) -> list[dict[str, Any]]:
    """Return the globals of the modules that belong to the code, or each of its ``__parts__``."""
    found: dict[int, dict[str, Any]] = {}
    for part in getattr(code, "__parts__", (code,)):
        for space in _namespaces(part):
            found.setdefault(id(space), space)
    return list(found.values())


def _namespaces(code: Any) -> list[dict[str, Any]]:
    own = unwrapped(code)
    spaces = getattr(own, "__globals__", None)
    home = getattr(own, "__module__", None)
    package = (home or type(own).__module__).split(".")[0]
    whole = package != "__main__" and not _is_huge(package)
    loaded = _LOADED.belonging_to(home, package if whole else None)
    return [spaces, *loaded] if isinstance(spaces, dict) else loaded


class _Loaded:
    """What looks through the loaded modules found, for as long as the very same are loaded.

    A session of tests loads thousands, hundreds of which may be the user's, and every
    instance of an audit may ask for them.
    """

    def __init__(self) -> None:
        self._modules: dict[str, Any] = {}
        self._found: dict[tuple[str | None, str | None], list[dict[str, Any]]] = {}
        self._libraries: dict[str, Any] = {}

    def belonging_to(self, home: str | None, package: str | None) -> list[dict[str, Any]]:
        """Return the globals of module ``home``, of a package, and of what no library holds."""
        if not same_bindings(sys.modules, self._modules):
            self._modules = dict(sys.modules)
            self._found.clear()
        if (home, package) not in self._found:
            self._found[home, package] = list(self._look(home, package))
        return self._found[home, package]

    def _look(self, home: str | None, package: str | None) -> Iterator[dict[str, Any]]:
        for name, module in self._modules.items():
            mine = name == home or name.split(".")[0] == package
            if self._libraries.get(name) is module and not mine:
                continue
            if not isinstance(module, ModuleType) or not (mine or _may_be_users(name, module)):
                self._libraries[name] = module
            elif not _is_never_users(name):
                yield vars(module)


_LOADED = _Loaded()


def same_bindings(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    """Whether two mappings bind the very same names to the very same objects, in one order."""
    return (
        len(now) == len(before)
        and all(map(operator.is_, now, before))
        and all(map(operator.is_, now.values(), before.values()))
    )


def _is_never_users(name: str) -> bool:
    of_python = name.split(".")[0] in sys.stdlib_module_names
    return of_python or name.startswith(_NEVER) or role_of_module(name) in _NOT_CALLED


def _may_be_users(name: str, module: ModuleType) -> bool:
    if _is_never_users(name):
        return False
    return role_of_module(name) in _OF_ADAPTERS or _outside_libraries(module)


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
    file = function.__code__.co_filename
    return same or on_trial(file) or _outside(file)


def _is_huge(package: str) -> bool:
    # Thousands of lazily loaded modules; only the function's own is looked at.
    return package in ("transformers", "vllm", "sglang")


@functools.cache
def _outside(file: str) -> bool:
    # The second for the packages of another Python that this one can see.
    return not (file.startswith(_LIBRARY_FOLDERS) or _PACKAGES.intersection(Path(file).parts))


def _outside_libraries(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and (on_trial(file) or _outside(file))

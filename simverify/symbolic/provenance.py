"""Whose code a frame or module is: simverify's machinery, a library's, or the code under audit.

Also what stops an enumeration: the errors, and the line of the user's code that they point at.
"""

import ast
import functools
import inspect
import linecache
import operator
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

from simverify.roles import folders, role_of_file, role_of_module


def names(text: str) -> frozenset[str]:
    """Return the words of a text, for tables of names that would take a line each."""
    return frozenset(text.split())


def name_pairs(text: str) -> dict[str, str]:
    """Return the same for a table of names by name: ``"lt:less le:less_equal"``."""
    return dict(pair.split(":") for pair in text.split())


# Errors that stop an enumeration, and findings with their line in the user's code.


Severity = Literal["violation", "warning"]

UNTRACKED_RANDOMNESS = "randomness that is not tracked, or state kept between calls"
"""What is to blame if one path of draws went two ways."""


@dataclass(frozen=True)
class Finding:
    """Something the code under audit did that its contract forbids.

    ``kind`` is a stable short name, ``severity`` is ``violation`` or ``warning``, ``message``
    says what was done and, where one is known, on which line.
    """

    kind: str
    severity: Severity
    message: str


def keep_most_severe(findings: dict[str, Finding], new: Finding) -> None:
    """Keep the first finding of each kind, or the first violation after warnings of that kind."""
    known = findings.get(new.kind)
    if known is None or (known.severity, new.severity) == ("warning", "violation"):
        findings[new.kind] = new


class StandInsChanged(Exception):
    """Other stand-ins are needed, whose choices are not those that a run was to go on from."""


class CannotEnumerate(Exception):
    """The code does something with a draw that the exact tier cannot follow.

    ``call`` names the operation, ``where`` the user's ``file:line`` (empty if unknown);
    ``findings`` are those recorded before it stopped.
    """

    def __init__(self, call: str, where: str = "", findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(f"cannot follow {call}" + (f" at {where}" if where else ""))
        self.call = call
        self.where = where
        self.findings = findings


class UntrackedRandomness(CannotEnumerate):
    """One path of draws went two ways: something drew what is not tracked."""


class InstanceTooLarge(CannotEnumerate):
    """What is followed on smaller instances would take too long on this one."""


class FloatOfDraw(CannotEnumerate):
    """A float was asked for; a stand-in for what makes floats may let the draw be one."""


class ArrayOfDraws(CannotEnumerate):
    """numpy itself made an array of draws: its elements would not take the array's type."""


class RaisesOnSymbolsOnly(CannotEnumerate):
    """The code raised on a symbol what it does not raise on numbers."""


class IntOfDraw(CannotEnumerate):
    """An integer of many values was asked for; a stand-in for ``int`` may let it stay a draw."""


class TooManyValues(CannotEnumerate):
    """A number was asked of a draw that has too many for a fork on each."""


class OutOfTime(Exception):
    """The time limit passed before the last path was run."""

    def __init__(self, seconds: float, paths: int) -> None:
        super().__init__(f"{paths} paths in {seconds:g} s and not done: raise the limit")
        self.seconds = seconds
        self.paths = paths


class CallBroken(Exception):
    """A call that died or hangs; ``kind`` is a finding's, ``line`` what was asked, as JSON."""

    def __init__(self, kind: str, message: str, line: str) -> None:
        super().__init__(message)
        self.kind, self.line = kind, line


_OF_ADAPTERS = ("adapter", "wrapper", "kernels")
"""Roles of what is round rows for the code that it wraps."""

_NOT_CALLED = ("machinery", "interface", "stand-in")
"""Roles of what neither is on trial nor is called by what is."""

_LIBRARY_MODULES = (
    frozenset({"jax", "jaxlib", "numba", "numpy", "scipy", "torch"}) | sys.stdlib_module_names
)


def is_machinery(module: str) -> bool:
    """Whether a module of that dotted name is this package's own machinery."""
    return role_of_module(module) not in (None, "under test")


def is_library(module: str) -> bool:
    """Whether a module of that dotted name belongs to Python or to what draws are made with."""
    return module.partition(".")[0] in _LIBRARY_MODULES


def is_users_module(module: str) -> bool:
    """Whether a module of that dotted name is neither this package's machinery nor a library's."""
    return not is_machinery(module) and not is_library(module)


@functools.lru_cache(maxsize=4096)
def belongs_to_the_audited(module: str) -> bool:
    """Whether a module of that dotted name is the user's, or an adapter of what is under audit."""
    return is_users_module(module) or role_of_module(module) in _OF_ADAPTERS


_MARKED_FILES: set[str] = set()


def portable_path(place: str) -> str:
    """Return a file, or ``file:line``, from its package's own folder on: equal on any machine."""
    home = next(iter(folders().values()))
    if place.startswith(f"{home}{os.sep}"):
        return place.removeprefix(f"{home.parent}{os.sep}")
    root = max((root for root in _LIBRARY_ROOTS if place.startswith(root)), key=len, default="")
    return place.removeprefix(root)


def source_line(place: str) -> str:
    """Return the text of a portable ``file:line``; "" where there is none, as of code from exec."""
    file, _, number = place.rpartition(":")
    home = next(iter(folders().values())).parent
    for root in ("", f"{home}{os.sep}", *_LIBRARY_ROOTS):
        linecache.checkcache(root + file)
        if text := linecache.getline(root + file, int(number)).strip():
            return text
    # A module in an archive has no file, and a loader that knows its text.
    for module in tuple(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            return linecache.getline(file, int(number), vars(module)).strip()
    return ""


def mark_as_user_code(path: Path) -> None:
    """Count an installed source file as code under audit, as an engine's, from now on."""
    _MARKED_FILES.add(str(path))


def is_marked_as_user_code(file: str | None) -> bool:
    """Whether a source file was put on trial."""
    return file in _MARKED_FILES


def is_adapter_file(file: str) -> bool:
    """Whether a source file is an adapter, which is neither machinery nor on trial itself."""
    return role_of_file(file) in _OF_ADAPTERS


def is_kernel_runner_file(file: str) -> bool:
    """Whether a source file is of what runs kernels: machinery that goes with the adapters."""
    return role_of_file(file) == "kernels"


def is_user_file(file: str) -> bool:
    """Whether a source file can be the code's under audit: neither ours nor an installed one."""
    if is_marked_as_user_code(file):
        return True
    installed = "site-packages" in file or "/lib/python3" in file or file.startswith("<")
    return not installed and role_of_file(file) in (None, "under test")


_Function = TypeVar("_Function", bound=Callable[..., Any])
_BOUNDARIES: set[int] = set()


def boundary(function: _Function) -> _Function:
    """Mark what runs the code under audit: its callers are not part of that code."""
    _BOUNDARIES.add(id(function.__code__))
    return function


def is_boundary(code: CodeType) -> bool:
    """Whether the code of a frame is that of a :func:`boundary`."""
    return id(code) in _BOUNDARIES


def current_user_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users_module(frame.f_globals.get("__name__", "")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if is_boundary(frame.f_code):
            return ""
        frame = frame.f_back
    return ""


_MAX_CALLERS = 3
"""How many callers of the line that raised are named."""


def traceback_user_lines(error: BaseException) -> tuple[str, ...]:
    """``file:line`` of the user code in the traceback: where it raised, then what called that."""
    lines: dict[str, None] = {}
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if is_user_file(file) and is_users_module(frame.f_globals.get("__name__", "")):
            place = f"{file}:{line}"
            lines.pop(place, None)  # code that calls itself is named where it did so last
            lines[place] = None
    return tuple(reversed(lines))


def innermost_user_line(error: BaseException) -> str:
    """`` (file:line)`` of the innermost user code in the traceback, or nothing."""
    return "".join(f" ({line})" for line in traceback_user_lines(error)[:1])


def describe_raise_site(error: BaseException) -> str:
    """`` (file:line, called at file:line, ...)`` outwards to the nearest callers, or nothing."""
    lines = traceback_user_lines(error)
    if not lines:
        return ""
    callers = ", ".join(lines[1 : _MAX_CALLERS + 1])
    return f" ({lines[0]}, called at {callers})" if callers else f" ({lines[0]})"


def parse_raise_site(text: str) -> tuple[str, ...]:
    """Return each ``file:line`` that :func:`describe_raise_site` put last into a text, if any."""
    lines: tuple[str, ...] = ()
    for inside in re.findall(r"\(([^()]+:\d+)\)", text):
        places = re.findall(r"(.+?:\d+)(?:, |$)", inside.replace(", called at ", ", "))
        files = [place.rpartition(":")[0] for place in places]
        if all(Path(file).is_file() for file in files):
            lines = tuple(map(portable_path, places))
    return lines


_INSTALL_FOLDERS = {"site-packages", "dist-packages"}
_LIBRARY_FOLDERS = tuple(
    {
        *sysconfig.get_paths().values(),
        *site.getsitepackages(),
        site.getusersitepackages(),
        *(folder for folder in sys.path if Path(folder).name in _INSTALL_FOLDERS),  # by a .pth file
    }
    - {sysconfig.get_paths()["data"], sysconfig.get_paths()["scripts"]}
)
_LIBRARY_ROOTS = tuple(f"{folder}{os.sep}" for folder in _LIBRARY_FOLDERS)
_EXCLUDED_MODULES = ("numpy", "scipy", "torch", "numba", "jax", "_pytest", "pytest")


def user_namespaces(code: Any) -> list[dict[str, Any]]:
    """Return the globals of the modules that belong to the code, or each of its ``__parts__``."""
    parts = getattr(code, "__parts__", (code,))
    return list({id(x): x for part in parts for x in _user_namespaces_of(part)}.values())


def _user_namespaces_of(code: Any) -> list[dict[str, Any]]:
    root = unwrap(code)
    spaces = getattr(root, "__globals__", None)
    home = getattr(root, "__module__", None)
    package = (home or type(root).__module__).split(".")[0]
    # Of packages with thousands of lazily loaded modules only the function's own is looked at.
    whole = package not in ("__main__", "transformers", "vllm", "sglang")
    loaded = _LOADED_MODULES.belonging_to(home, package if whole else None)
    return [spaces, *loaded] if isinstance(spaces, dict) else loaded


class _LoadedModules:
    """The user's namespaces among thousands of modules, kept while the same ones are loaded."""

    def __init__(self) -> None:
        self._modules: dict[str, Any] = {}
        self._namespaces: dict[tuple[str | None, str | None], list[dict[str, Any]]] = {}
        self._libraries: dict[str, Any] = {}

    def belonging_to(self, home: str | None, package: str | None) -> list[dict[str, Any]]:
        """Return the globals of module ``home``, of a package, and of what no library holds."""
        if not have_same_bindings(sys.modules, self._modules):
            self._modules = dict(sys.modules)
            self._namespaces.clear()
        if (home, package) not in self._namespaces:
            self._namespaces[home, package] = list(self._look(home, package))
        return self._namespaces[home, package]

    def _look(self, home: str | None, package: str | None) -> Iterator[dict[str, Any]]:
        for name, module in self._modules.items():
            mine = name == home or name.split(".")[0] == package
            if self._libraries.get(name) is module and not mine:
                continue
            if not isinstance(module, ModuleType) or not (
                mine or _may_be_user_module(name, module)
            ):
                self._libraries[name] = module
            elif not _is_never_users(name):
                yield vars(module)


_LOADED_MODULES = _LoadedModules()


def have_same_bindings(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    """Whether two mappings bind the very same names to the very same objects, in one order."""
    return (
        len(now) == len(before)
        and all(map(operator.is_, now, before))
        and all(map(operator.is_, now.values(), before.values()))
    )


def _is_never_users(name: str) -> bool:
    of_python = name.split(".")[0] in sys.stdlib_module_names
    return of_python or name.startswith(_EXCLUDED_MODULES) or role_of_module(name) in _NOT_CALLED


def _may_be_user_module(name: str, module: ModuleType) -> bool:
    if _is_never_users(name):
        return False
    return role_of_module(name) in _OF_ADAPTERS or _is_module_outside_libraries(module)


def unwrap(code: Any) -> Any:
    """Return what partial objects, decorators and bound methods wrap."""
    while isinstance(code, functools.partial):
        code = code.func
    code = inspect.unwrap(code) if callable(code) else code
    return getattr(code, "__func__", code)


def is_user_function(function: FunctionType, root: Any) -> bool:
    """Whether a function belongs to the package of ``root`` or to no installed one."""
    package = (getattr(root, "__module__", None) or "").split(".")[0]
    same = (function.__module__ or "").split(".")[0] == package
    file = function.__code__.co_filename
    return same or is_marked_as_user_code(file) or _is_outside_libraries(file)


@functools.cache
def _is_outside_libraries(file: str) -> bool:
    # The second for the packages of another Python that this one can see.
    return not (
        file.startswith(_LIBRARY_FOLDERS) or _INSTALL_FOLDERS.intersection(Path(file).parts)
    )


def _is_module_outside_libraries(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and (is_marked_as_user_code(file) or _is_outside_libraries(file))


# Errors that are an adapter's, not its engine's.


def adapter_error_location(error: BaseException) -> str:
    """Return where an adapter, not the engine behind it, raised ``error``; "" where it did not.

    That is an error whose innermost line, libraries aside, is an adapter's; one about an
    attribute that an object of an adapter lacks; and one about the arguments of a call of what
    an adapter gave.
    """
    place, owner = "", type(getattr(error, "obj", None)).__module__
    trace = last = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_library(trace.tb_frame.f_globals.get("__name__", "")):
            place = f"{file}:{trace.tb_lineno}" if role_of_file(file) == "adapter" else ""
        trace, last = trace.tb_next, trace
    if isinstance(error, AttributeError) and role_of_module(owner) == "adapter":
        return f"{owner} has no {error.name}"
    if isinstance(error, TypeError) and last is not None:
        code = getattr(unwrap(_failed_call_target(last)), "__code__", None)
        # A call that has begun stands in the traceback itself.
        if code is not None and role_of_file(code.co_filename) == "adapter":
            return f"{code.co_filename}:{code.co_firstlineno}"
    return place


def _failed_call_target(trace: TracebackType) -> Any:
    """Return the function whose call ends a traceback, read from the source; None: no call."""
    code = trace.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[trace.tb_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None
    function = _frame_value(call.func, trace) if isinstance(call, ast.Call) else None
    if isinstance(function, type):
        return vars(function).get("__init__")
    is_function = any(hasattr(function, name) for name in ("__code__", "__func__", "func"))
    return function if is_function or not callable(function) else type(function).__call__


def _frame_value(node: ast.expr, trace: TracebackType) -> Any:
    """Return what a name, or an attribute of one, is in the frame; None of anything else."""
    frame = trace.tb_frame
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        with suppress(Exception):  # a property may raise anything
            return getattr(_frame_value(node.value, trace), node.attr)
    return None


# What stands in for libraries says so to those who run the code.


STALE_ARRAY = "an array of draws was kept from a call that is over"
"""What an array of MLX's says that holds draws, or did, where code is followed no more."""


class CompiledFunction(NamedTuple):
    """A function that is followed by its source, and where that is."""

    name: str
    where: str

    @classmethod
    def of(cls, python: Any, compiler: str = "numba") -> "CompiledFunction":
        """Describe a Python function that ``compiler`` compiles."""
        code = getattr(python, "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}" if code else ""
        return cls(f"{compiler}'s {getattr(python, '__name__', 'function')}()", where)

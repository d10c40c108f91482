"""Verdicts of audits, kept until anything that they depend on changes.

Only of code that reads nothing but its own modules: each of its sources may import a few packages
that compute, and other sources of its own, and may name nothing that asks the machine for more. So
a verdict depends on the request, the sources, what an import could have found, the environment and
the installed packages, and all of these are compared. What else code does is watched as it runs: a
file that it opens, another program, a connection, and nothing is kept.
"""

import ast
import hashlib
import importlib.util
import marshal
import os
import platform
import stat
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

import msgspec

from simverify.folders import cache_folder
from simverify.options.audit import AuditOptions
from simverify.results import AuditRun
from simverify.roles import folders

_FORMAT = 2

_VOLATILE = (
    *("COLUMNS", "DBUS_", "GITHUB_", "GPG_", "ITERM_", "KITTY_", "LINES", "LS_COLORS", "MAKE"),
    *("MFLAGS", "OLDPWD", "PWD", "PYTEST_", "RUNNER_", "SHLVL", "SIMVERIFY_CACHE_DIR", "SSH_"),
    *("TERM", "TMUX", "VSCODE_", "WINDOWID", "WT_", "XDG_"),
)
"""Beginnings of variables that differ between two terminals and that no package here reads."""

_PURE = frozenset(
    (
        *("__future__", "abc", "array", "bisect", "cmath", "collections", "contextlib", "copy"),
        *("dataclasses", "decimal", "enum", "fractions", "functools", "hashlib", "heapq"),
        *("itertools", "jax", "math", "numba", "numbers", "numpy", "operator", "random", "re"),
        *("scipy", "secrets", "statistics", "string", "struct", "torch", "types", "typing"),
        *("typing_extensions", "warnings"),
    )
)
"""What code may import whose verdict is kept."""

_ASKS = frozenset(
    (
        *("open", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals"),
        *("input", "locals", "vars", "load", "loads", "loadtxt", "load_library", "load_model"),
        *("load_npz", "fromfile", "fromregex", "from_file", "genfromtxt", "memmap"),
        *("open_memmap", "DataSource", "tofile", "save", "savetxt", "savez", "savez_compressed"),
        *("save_npz", "dump", "dumps", "datasets", "hub", "io", "ops", "cpp_extension", "ctypes"),
        *("ctypeslib", "cffi_support", "f2py", "os", "sys", "subprocess", "pathlib", "environ"),
        *("getenv", "importlib", "pkgutil", "time", "timeit", "Timer", "benchmark", "datetime"),
        *("datetime64", "now", "today", "cuda", "mps", "xpu", "accelerator", "devices"),
        *("local_devices", "local_device_count", "device_count", "default_backend", "platform"),
        *("process_index", "is_available", "get_device_name", "get_num_threads", "cpu_count"),
        *("get_num_interop_threads", "pure_callback", "io_callback", "callback", "show_config"),
        *("distributed", "multiprocessing", "PackageImporter", "urandom", "SystemRandom"),
    )
)
"""Names that read what no source of the code holds, or may."""

_DEVICES = ("cuda", "mps", "xpu", "tpu")
_USUAL = frozenset(
    (
        *("__all__", "__author__", "__call__", "__doc__", "__enter__", "__eq__", "__exit__"),
        *("__float__", "__getitem__", "__hash__", "__index__", "__init__", "__int__", "__iter__"),
        *("__len__", "__lt__", "__main__", "__name__", "__post_init__", "__repr__", "__slots__"),
        *("__str__", "__version__"),
    )
)
"""Names with two underscores that read nothing."""

_EVENTS = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
_FORKS = ("os.fork", "os.forkpty", "ctypes.dlopen")
"""Audit events of Python after which the verdict may depend on something outside."""

_RACE_SECONDS = 0.1
"""Files that were changed later than so long before the audit began may differ from what it read:
the time stamps of a file system are coarse."""

_MAX_KEPT = 200
"""Verdicts that are kept at most, of about 0.1 MB each; then the oldest goes."""


class _Inputs(msgspec.Struct, frozen=True):
    """What a verdict depends on, beside its request.

    ``sources``: real path and SHA-256 of each module by its path; ``installed``: size, times and
    inode of files of packages; ``folders``: real path of each, and the names of what could be
    imported from it.
    """

    sources: dict[str, tuple[str, str]]
    installed: dict[str, tuple[int, ...]]
    folders: dict[str, tuple[str, ...]]

    def hold(self) -> bool:
        """Whether nothing has changed."""
        return (
            all(_source(file)[0] == value for file, value in self.sources.items())
            and all(_stamp(file) == value for file, value in self.installed.items())
            and all(_importable(name) == value for name, value in self.folders.items())
        )


class _Entry(msgspec.Struct, frozen=True):
    inputs: _Inputs
    run: AuditRun


def kept_run(options: AuditOptions, reproduce: str | None) -> AuditRun | None:
    """Return the document of the same audit, if there is one whose inputs have not changed.

    To be asked in a process that has loaded none of the code, which the options name by a SPEC.
    """
    path = _entry_path(options, reproduce)
    if path is None or not path.is_file():
        return None
    try:
        entry = msgspec.json.decode(path.read_bytes(), type=_Entry)
        same = entry.inputs.hold()
    except Exception:  # a damaged file, or one that cannot be read: audit again
        return None
    if not same:
        return None
    note = (
        f"kept from the audit of {entry.run.meta.started}: the code, the options and the versions "
        "are the same (--no-cache audits again)"
    )
    return msgspec.structs.replace(entry.run, notes=(note, *entry.run.notes))


class VerdictRecorder:
    """Notes what an audit depends on, in the process that audits and from before it loads code."""

    def __init__(self, options: AuditOptions, reproduce: str | None) -> None:
        self._path = _entry_path(options, reproduce)
        self._began = time.time()
        self._sources: dict[str, tuple[tuple[str, str], bytes]] = {}
        self._folders: dict[str, tuple[str, ...]] = {}
        self._busy = False
        self._place = str(options.rule).rpartition(":")[0]
        self._compiled: set[str] = set()
        # A start-up file of the user may have changed anything.
        self._unknown = any(map(_is_user_file, _module_files()))
        if self._path is not None and not self._unknown:
            for folder in sys.path:
                self._note_folder(folder)
            sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Called for all that happens in the code, which must not see an error of ours; and for what
        # is read here.
        if self._busy:
            return
        self._busy = True
        try:
            if event == "open":
                self._note_file(*arguments)
            elif event.startswith(_EVENTS) or (event in _FORKS and not _is_library(arguments)):
                self._unknown = True
        except Exception:
            self._unknown = True
        finally:
            self._busy = False

    def _note_file(self, path: object, _mode: object, flags: int) -> None:
        if isinstance(path, int) or self._unknown:
            return
        place = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._unknown = not (_is_ours(place) or place == os.devnull)
        elif place.endswith(".pyc") and _is_user_file(place):
            compiled, place = place, importlib.util.source_from_cache(place)
            self._compiled.add(compiled)  # if only to see that there is none
            if os.path.exists(compiled):
                self._unknown = not _is_compiled_from(Path(compiled), Path(place))
        if self._unknown or not _is_user_file(place) or place in self._sources:
            return
        if not place.endswith(".py"):
            # Folders and archives of imports are noted, and the main module is the command line.
            searched = place in self._folders or os.path.isdir(place)
            self._unknown = not searched and place != _main_file()
            return
        self._sources[place] = _source(place)
        folder = os.path.dirname(place)
        self._note_folder(folder)
        while _is_package(folder):  # up to where its name begins
            folder = os.path.dirname(folder)
            self._note_folder(folder)

    def _note_folder(self, folder: str) -> None:
        place = os.path.abspath(folder)
        if place not in self._folders:
            self._folders[place] = _importable(place)

    def keep(self, run: AuditRun) -> None:
        """Keep the verdict, if nothing but what was noted can change it."""
        path = self._path
        if path is None or self._unknown or run.verdict == "INCONCLUSIVE" or run.stopped:
            return
        self._path = None
        part = path.with_suffix(f".{os.getpid()}")
        try:
            if (inputs := self._inputs()) is not None:
                part.write_bytes(msgspec.json.encode(_Entry(inputs, run)))
                part.replace(path)
                kept = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
                for one in kept[:-_MAX_KEPT]:
                    one.unlink(missing_ok=True)
        except Exception:
            return  # an audit does not fail because its verdict cannot be kept
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _inputs(self) -> _Inputs | None:
        files = set(_module_files()) - {_main_file()}
        mine = {file for file in files if _is_user_file(file)}
        if not mine or not mine <= set(self._sources) or self._rule_file() not in mine:
            return None  # a module that no file was opened for: compiled, or put there by hand
        modules = [(name, one) for name, one in list(sys.modules.items()) if _module_file(one)]
        names = {name.partition(".")[0] for name, one in modules if _module_file(one) in mine}
        others = {name.partition(".")[0] for name, one in modules if _module_file(one) not in mine}
        packages = {
            _module_file(one): spec.parent or ""
            for _, one in modules
            if (spec := getattr(one, "__spec__", None)) is not None
        }
        if names & others:
            return None  # half of it is installed
        for file, (_, text) in self._sources.items():
            if not _is_pure(text, packages.get(file, ""), names):
                return None
        installed = {file: _stamp(file) for file in (files - mine) | self._compiled}
        late = max((max(times[1:3]) for times in installed.values() if times), default=0)
        if late > (self._began - _RACE_SECONDS) * 1e9:
            return None  # installed meanwhile
        for file in self._sources:
            status = os.stat(file)
            if max(status.st_mtime, status.st_ctime) > self._began - _RACE_SECONDS:
                return None
        sources = {file: known for file, (known, _) in self._sources.items()}
        inputs = _Inputs(sources, installed, dict(self._folders))
        return inputs if inputs.hold() else None

    def _rule_file(self) -> str | None:
        if self._place.endswith(".py"):
            return os.path.abspath(self._place)
        return _module_file(sys.modules.get(self._place))


def _entry_path(options: AuditOptions, reproduce: str | None) -> Path | None:
    """Return where the verdict of a request is kept; None where none is."""
    if not isinstance(options.rule, str) or ":" not in options.rule:
        return None
    root = cache_folder("")
    if root is None or os.path.realpath(options.rule).startswith(os.path.realpath(root) + os.sep):
        return None
    environment = sorted((k, v) for k, v in os.environ.items() if not _is_volatile(k))
    request = (
        *(_FORMAT, repr(options), reproduce, os.getcwd(), sys.path, environment),
        *(sys.version, sys.executable, sys.flags, platform.machine(), platform.node()),
        *(os.path.exists(".numba_config.yaml"), os.cpu_count(), _affinity()),
    )
    folder = cache_folder("verdicts")
    return folder and folder / f"{hashlib.sha256(repr(request).encode()).hexdigest()}.json"


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _is_volatile(name: str) -> bool:
    return name == "_" or name.startswith(_VOLATILE)


def _is_pure(text: bytes, package: str, names: set[str]) -> bool:
    """Whether a source imports nothing but ``names`` and what computes, and asks for no more."""
    return all(_is_harmless(node, package, names) for node in ast.walk(ast.parse(text)))


def _is_harmless(node: ast.AST, package: str, names: set[str]) -> bool:
    match node:
        case ast.Import(names=imported):
            return all(_may_import(one.name, names) for one in imported)
        case ast.ImportFrom(module=module, level=level, names=imported):
            if any(one.name in _ASKS or one.name.startswith("_") for one in imported):
                return False
            if not level:
                return _may_import(module or "", names)
            # One that is not there now may be there later.
            base = "." * level + (module or "")
            return importlib.util.resolve_name(base, package) in sys.modules
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if name.startswith("_"):
            return name in _USUAL or owner in ("self", "cls")
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            dunder = name.startswith("__") and name not in _USUAL
            return not (dunder or name in _ASKS or name.startswith(_DEVICES))
    return True


def _may_import(module: str, names: set[str]) -> bool:
    parts = module.split(".")
    hidden = any(part in _ASKS or part.startswith("_") for part in parts if part != "__future__")
    return parts[0] in _PURE | names and not hidden


def _module_files() -> Iterator[str]:
    main = sys.modules.get("__main__")
    for module in list(sys.modules.values()):
        if module is not main and (file := _module_file(module)) is not None:
            yield file


def _main_file() -> str:
    """Return the file of the command line itself, which is no code under audit."""
    return os.path.abspath(str(getattr(sys.modules["__main__"], "__file__", "")))


def _module_file(module: object) -> str | None:
    # What no import has made may say any file.
    file = getattr(module, "__file__", None) if getattr(module, "__spec__", None) else None
    return os.path.abspath(file) if isinstance(file, str) else None


_INSTALLED = tuple(
    {
        os.path.join(os.path.realpath(path), "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)


_SYSTEM_FILES = ("/dev/null", "/dev/random", "/dev/urandom", "/dev/tty")


@cache
def _is_user_file(file: str) -> bool:
    """Whether a file is neither of Python, of an installed package nor of simverify itself."""
    real = os.path.realpath(file)
    system = real.startswith(("/proc/", "/sys/")) or real in _SYSTEM_FILES
    installed = real.startswith((*_INSTALLED, *_own_folders())) or any(
        part in real for part in ("/site-packages/", "/dist-packages/")
    )
    return not (system or installed or _is_ours(file))


@cache
def _own_folders() -> tuple[str, ...]:
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders().values())


_CACHES = ("hypothesis", "kernels-", "results-", "verdicts")


def _is_ours(file: str) -> bool:
    """Whether a file lies in the cache, where only simverify reads and writes."""
    root = cache_folder("")
    if root is None:
        return False
    first, *below = os.path.relpath(os.path.realpath(file), os.path.realpath(root)).split(os.sep)
    return bool(below) and first.startswith(_CACHES) and not file.endswith(".py")


def _is_library(arguments: tuple[Any, ...]) -> bool:
    """Whether a shared library is that of an installed package."""
    return bool(arguments) and (
        arguments[0] is None or not _is_user_file(os.path.abspath(os.fsdecode(arguments[0])))
    )


def _source(file: str) -> tuple[tuple[str, str], bytes]:
    """Return the real path and the hash of a source, and its text; nothing where there is none."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            return ("", ""), b""
        text = Path(file).read_bytes()
    except OSError:
        return ("", ""), b""
    return (os.path.realpath(file), hashlib.sha256(text).hexdigest()), text


def _stamp(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)
    except OSError:  # some packages name files that they do not bring
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


_SUFFIXES = tuple(all_suffixes())


def _is_package(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, f"__init__{end}")) for end in _SUFFIXES)


def _is_compiled_from(compiled: Path, source: Path) -> bool:
    """Whether a compiled copy is what the source is now."""
    made = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    return bool(marshal.loads(compiled.read_bytes()[16:]) == made)


def _importable(folder: str) -> tuple[str, ...]:
    """Return the names in a folder that an import could mean; of installed ones when it changed."""
    real = os.path.realpath(folder)
    try:
        if not _is_user_file(os.path.join(folder, "")):
            return real, str(os.stat(folder).st_mtime_ns)
        with os.scandir(folder) as entries:
            names = [
                x.name
                for x in entries
                if x.name.endswith(_SUFFIXES) or (x.is_dir() and _is_package(x.path))
            ]
    except OSError:
        return (real,)
    return real, *sorted(x for x in names if x.partition(".")[0].isidentifier())

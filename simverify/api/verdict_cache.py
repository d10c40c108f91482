"""Verdicts of audits, kept until anything that they depend on changes.

A verdict is kept for the code, the options and the versions that led to it: the source of every
module that the audit loaded, the files that were read meanwhile, what the folders of imports hold,
the environment, and the installed packages. Code that asks the machine for more, such as the clock
or a list of files, is audited anew each time, and so is code that a Python process hands over: what
that process has done to it is in no file.
"""

import hashlib
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import all_suffixes
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from simverify.folders import cache_folder
from simverify.options.audit import AuditOptions
from simverify.results import AuditRun
from simverify.roles import folders

_FORMAT = 1

_VOLATILE = frozenset(
    ("_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "SIMVERIFY_CACHE_DIR", "TERM", "WINDOWID")
)
"""Variables of the environment that differ between two terminals and say nothing of code."""

_ASKS = frozenset(
    (
        *("time", "datetime", "platform", "socket", "subprocess", "multiprocessing", "threading"),
        *("psutil", "uuid", "getpass", "pwd", "resource", "sysconf", "cpu_count", "uname"),
        *("getpid", "gethostname", "getloadavg", "sched_getaffinity", "get_device_name", "devices"),
        *("exists", "lexists", "is_file", "isfile", "is_dir", "isdir", "islink", "access", "stat"),
        *("lstat", "getsize", "getmtime", "listdir", "scandir", "iterdir", "glob", "iglob", "walk"),
        *("environ", "getenv", "environb", "getenvb", "argv", "stdin", "input", "getcwd", "cwd"),
        *("CDLL", "cdll", "PyDLL", "LoadLibrary", "dlopen", "ffi", "mmap", "shared_memory"),
        *("urlopen", "requests", "httpx", "aiohttp", "sqlite3", "redis"),
    )
)
"""Names in code that asks the machine for what no file of it says."""

_EVENTS = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
"""Audit events of Python after which the verdict may depend on something outside."""

_SPECIAL_FOLDERS = ("/proc/", "/sys/", "/dev/")

_MAX_PATH = 1_000
_MAX_KEPT = 200
"""Verdicts that are kept at most, of about 0.1 MB each; then the oldest goes."""

_RACE_SECONDS = 0.1
"""Files that were changed later than so long before the audit began may differ from what it read:
the time stamps of a file system are coarse."""


class _Inputs(msgspec.Struct, frozen=True):
    """What a verdict depends on, beside its request.

    ``sources``: SHA-256 of files by path, "" where there was none; ``installed``: size, times and
    inode of files of packages; ``folders``: the names of what could be imported from each.
    """

    sources: dict[str, str]
    installed: dict[str, tuple[int, ...]]
    folders: dict[str, tuple[str, ...]]


class _Entry(msgspec.Struct, frozen=True):
    inputs: _Inputs
    run: AuditRun


def kept_run(options: AuditOptions, reproduce: str | None) -> AuditRun | None:
    """Return the document of the same audit, if there is one whose inputs have not changed.

    To be asked in a process that has loaded none of the code, which the options name by a SPEC.
    """
    path = _entry_path(options, reproduce)
    if path is None:
        return None
    try:
        entry = msgspec.json.decode(path.read_bytes(), type=_Entry)
        known = entry.inputs
        same = (
            all(_sha256(file) == value for file, value in known.sources.items())
            and all(_stamp(file) == value for file, value in known.installed.items())
            and all(_importable(name) == value for name, value in known.folders.items())
        )
    except (OSError, ValueError, msgspec.DecodeError):
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
        self._read: set[str] = set()
        self._unknown = False
        if self._path is not None:
            sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Called for all that happens: nothing may raise, and most events are of no interest.
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, bytes):
                path = os.fsdecode(path)
            if isinstance(path, str) and not path.startswith(_SPECIAL_FOLDERS):
                if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                    self._unknown |= not _is_ours(path)
                elif "__pycache__" not in path:
                    self._read.add(os.path.abspath(path))
        elif event == "ctypes.dlopen":
            name = arguments[0]
            self._unknown |= bool(name) and not _is_installed(os.path.abspath(os.fspath(name)))
        elif event.startswith(_EVENTS):
            self._unknown = True

    def keep(self, run: AuditRun) -> None:
        """Keep the verdict, if nothing but what was noted can change it."""
        path = self._path
        if path is None or self._unknown or run.verdict == "INCONCLUSIVE" or run.stopped:
            return
        self._path = None
        with suppress(Exception):  # modules may hold anything; an audit does not fail for it
            inputs = self._inputs()
            if inputs is None:
                return
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(msgspec.json.encode(_Entry(inputs, run)))
            part.replace(path)
            kept = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for one in kept[:-_MAX_KEPT]:
                one.unlink()

    def _inputs(self) -> _Inputs | None:
        files = set(filter(None, map(_module_file, list(sys.modules.values()))))
        files.discard(_module_file(sys.modules["__main__"]))  # the command line itself
        sources, installed = dict[str, str](), dict[str, tuple[int, ...]]()
        for file in files | self._read:
            if _is_installed(file):
                if file in files:
                    installed[file] = _stamp(file)
            elif not _is_ours(file):
                if file in files and not self._is_plain(Path(file)):
                    return None
                if os.path.exists(file):
                    status = os.stat(file)
                    if max(status.st_mtime, status.st_ctime) > self._began - _RACE_SECONDS:
                        return None
                sources[file] = _sha256(file)
        return _Inputs(sources, installed, {x: _importable(x) for x in _import_folders()})

    def _is_plain(self, file: Path) -> bool:
        """Whether a module is Python source that asks the machine for nothing.

        Nor names a file that was read without Python's knowledge, as compiled code can.
        """
        if file.suffix != ".py":
            return False
        names, texts = set[str](), set[str]()
        todo: list[object] = [compile(file.read_bytes(), str(file), "exec")]
        while todo:
            one = todo.pop()
            if isinstance(one, CodeType):
                names.update(one.co_names)
                todo += one.co_consts
            elif isinstance(one, tuple | frozenset):
                todo += one
            elif isinstance(one, str):
                texts.add(one)
        asks = (names | texts) & _ASKS
        return not (asks or any(self._is_unread(text, file.parent) for text in texts))

    def _is_unread(self, text: str, folder: Path) -> bool:
        if text.startswith(_SPECIAL_FOLDERS):
            return True
        if len(text) > _MAX_PATH or "\n" in text or "\0" in text or text in ("", ".", "..", "/"):
            return False
        places = (os.path.abspath(text), os.path.abspath(folder / text))
        return any(place not in self._read and os.path.exists(place) for place in places)


def _entry_path(options: AuditOptions, reproduce: str | None) -> Path | None:
    """Return where the verdict of a request is kept; None where none is."""
    if not isinstance(options.rule, str):
        return None
    environment = sorted((k, v) for k, v in os.environ.items() if k not in _VOLATILE)
    request = (
        *(_FORMAT, repr(options), reproduce, os.getcwd(), sys.path, environment),
        *(sys.version, sys.executable, sys.flags, platform.machine()),
    )
    folder = cache_folder("verdicts")
    return folder and folder / f"{hashlib.sha256(repr(request).encode()).hexdigest()}.json"


_SUFFIXES = tuple(all_suffixes())


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


def _is_installed(file: str) -> bool:
    """Whether a file is of Python, of an installed package or of simverify itself."""
    real = os.path.realpath(file)
    return real.startswith(_INSTALLED) or real.startswith(_own_folders())


@cache
def _own_folders() -> tuple[str, ...]:
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders().values())


def _is_ours(file: str) -> bool:
    """Whether a file lies in the cache, where only simverify reads and writes."""
    folder = cache_folder("")
    return folder is not None and os.path.realpath(file).startswith(os.path.realpath(folder))


def _sha256(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _stamp(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)
    except OSError:  # some packages name files that they do not bring
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _import_folders() -> Iterator[str]:
    """Yield the folders from which the code's modules were, or could have been, imported."""
    specs = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    packages = (getattr(spec, "submodule_search_locations", None) or () for spec in specs)
    for folder in {*sys.path, *(x for path in packages for x in path)}:
        place = os.path.abspath(folder)
        if os.path.isdir(place):
            yield place


def _importable(folder: str) -> tuple[str, ...]:
    """Return the names in a folder that an import could mean; of installed ones when it changed."""
    if _is_installed(os.path.join(folder, "")):
        return (str(os.stat(folder).st_mtime_ns),)
    with os.scandir(folder) as entries:
        names = [x.name for x in entries if x.name.endswith(_SUFFIXES) or x.is_dir()]
    return tuple(sorted(x for x in names if x.partition(".")[0].isidentifier()))

"""Folders and files: the cache, the record of runs, sources of packages, and locks of files."""

__simverify_role__ = "shared"


import fcntl
import hashlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import platformdirs

from simverify.roles import folders, role_of_file

STORE_VARIABLE = "SIMVERIFY_RUNS"
"""The environment variable that names the store; empty for none."""

DEFAULT_STORE = Path(".simverify") / "runs.db"
"""The store that is used where the variable is not set, if ``simverify runs init`` made one."""


def store_path() -> Path | None:
    """Return the store that runs are recorded in: the variable's, or the folder's if it is there.

    None where there is none; nothing is made unasked.
    """
    named = os.environ.get(STORE_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return DEFAULT_STORE if DEFAULT_STORE.exists() else None


def cache_folder(name: str) -> Path | None:
    """Return a writable folder for ``name``, or None if there is none (then nothing is kept).

    ``SIMVERIFY_CACHE_DIR`` names the root; otherwise it is the user's cache folder, or a
    folder of the user's own in the temporary one where the home is read-only.
    """
    if root := os.environ.get("SIMVERIFY_CACHE_DIR"):
        roots = [Path(root)]
    else:
        spare = Path(tempfile.gettempdir()) / f"simverify-{os.getuid()}"
        roots = [platformdirs.user_cache_path("simverify"), spare]
    return next((root / name for root in roots if _writable(root / name)), None)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid()


def find_package(name: str) -> Path | None:
    """Return the folder of an importable package, or the file of a module; None if absent.

    Nothing is imported.
    """
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # put into sys.modules by hand, without a spec
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return None if spec.origin is None else Path(spec.origin)


def distribution_of(package: str) -> tuple[str, str] | None:
    """Return name and version of the distribution that a package comes from; None if unknown.

    Of several that share it, as a namespace, the first that is found. Nothing is imported.
    """
    from importlib.metadata import PackageNotFoundError, version

    for name in _package_distributions(tuple(sys.path)).get(package, ()):
        try:
            installed: str | None = version(name)
        except (PackageNotFoundError, KeyError):
            continue
        if installed:  # a damaged one says none
            return name, installed
    return None


@lru_cache(maxsize=1)
def _package_distributions(_path: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """Return the distributions of each package: it takes the reading of all that is installed."""
    from importlib.metadata import packages_distributions

    return packages_distributions()


def find_source(spec: str) -> Path | None:
    """Return the file that ``spec``, module:attribute or path/file.py:attribute, names.

    None where it names none, as an engine does; no code is loaded. It need not be there.
    """
    where = spec.rpartition(":")[0]
    if not where or where.endswith(".py"):
        return Path(where) if where else None
    first, *rest = where.split(".")
    package = find_package(first) if first.isidentifier() else None
    if package is None:
        return None
    path = package.joinpath(*rest) if package.is_dir() else package
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def simverify_sources_sha256() -> str:
    """Return the SHA-256 of simverify's own sources, but for what no number comes from."""
    digest, paths = hashlib.sha256(), dict[str, Path]()
    for package, folder in folders().items():
        for path in folder.rglob("*.py"):
            # An installed package holds within it what a checkout has beside it: one name of both.
            parts = (*package.split("."), *path.relative_to(folder).parts)
            paths["/".join(parts)] = path
    for name, path in sorted(paths.items()):
        if role_of_file(str(path)) != "interface":
            digest.update(name.encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


# Lock files: one process holds a file at a time, and others are told that it is taken.


_LOCK_ATTEMPTS = 20
_RETRY_SECONDS = 0.025
"""How often a lock is asked for, and the seconds between: who only looks has it for an instant."""


class Lock:
    """The lock of one file, which is made; the system lets go when the process ends, however.

    Raises ``OSError`` where the file cannot be opened, or :meth:`take` where its disk has no locks.
    """

    def __init__(self, path: Path) -> None:
        # Unbuffered: on a full disk a note that was not written would be tried again at the end.
        self._file = path.open("ab", buffering=0)

    def take(self, note: str = "") -> bool:
        """Whether the lock is had now; ``note`` goes into the file, for others to read."""
        for attempt in range(_LOCK_ATTEMPTS):
            if attempt:
                time.sleep(_RETRY_SECONDS)
            if _try_lock(self._file, fcntl.LOCK_EX):
                with suppress(OSError):  # only a message would miss it
                    self._file.truncate(0)
                    self._file.write(note.encode())
                return True
        return False

    def release(self) -> None:
        """Give the lock back, if it is had, and close the file."""
        with self._file, suppress(OSError):  # of a disk without locks
            _unlock(self._file)


def is_locked(path: Path) -> bool:
    """Whether a process has the lock of a file, which need not be there."""
    try:
        with path.open("r") as file:
            if not _try_lock(file, fcntl.LOCK_SH):
                return True
            _unlock(file)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _try_lock(file: IO[Any], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: IO[Any]) -> None:
    # By word: a process that another thread is just starting has copies of all descriptors until
    # its program is loaded, and one of them would keep the lock after this file is closed.
    fcntl.flock(file, fcntl.LOCK_UN)

"""The folder of a sweep: what it is of, who runs it, and a file of records for each cell.

Records are appended. What is replaced is written beside, synced and renamed, so that a file is the
old one or the new one. Nothing is trusted that does not have its hash.
"""

import hashlib
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from simverify.errors import UsageError
from simverify.locks import Lock, is_locked
from simverify.results import SweepVersions
from simverify.sweeping.records import unpack
from simverify.sweeping.spec import Spec
from simverify.sweeping.versions import difference

DOCUMENT = "sweep.json"
META = "meta.json"
SPEC = "spec.json"
_LOCK = "lock"
_CELLS = "cells"
_AUDITS = "audits"
_A_FOLDER = 1000
"""Cells in a folder within."""

_RESULTS = (_CELLS, _AUDITS, DOCUMENT, META)
"""What a sweep leaves in its folder beside what it is of."""

_TEMPORARY = ".new"

_LOOKED_AT = 100
"""Files of cells that are asked whose they are, where the note on it is damaged."""

KEPT = "every finished shard is kept, and the same command goes on from there"


class Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder is of; ``files``: SHA-256 of each file that the sweep names."""

    spec: Spec
    files: dict[str, str | None]
    versions: SweepVersions

    @property
    def key(self) -> bytes:
        """What tells the records of this sweep from those of all others."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()


class Folder:
    """The folder of one sweep, and its cells' files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key = b""
        self._listed: tuple[int, frozenset[str]] = (-1, frozenset())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other run out; the system lets go when this process ends, however it does.

        Raises ``UsageError`` if another run is in the folder, or it cannot be made.
        """
        self._make(self.path)
        try:
            lock = Lock(self.path / _LOCK)
        except OSError as error:
            raise self._unwritable(self.path / _LOCK, error) from None
        try:
            try:
                taken = lock.take(f"process {os.getpid()} on {socket.gethostname()}")
            except OSError as error:
                raise UsageError(f"{self.path} cannot be locked: {error.strerror}") from None
            if not taken:
                raise UsageError(
                    f"{self.path} is in use by another run{self._holder()}: wait for it, or name "
                    "another --out"
                )
            yield
        finally:
            lock.release()

    @property
    def in_use(self) -> bool:
        """Whether a run is in the folder now."""
        return is_locked(self.path / _LOCK)

    def _holder(self) -> str:
        try:
            return f", {(self.path / _LOCK).read_text(encoding='utf-8')}"
        except (OSError, UnicodeDecodeError):
            return ""

    def begun(self) -> Begun | None:
        """Return what the folder is of; None if it is of nothing yet."""
        path = self.path / SPEC
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Begun)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        except msgspec.DecodeError:
            raise UsageError(
                f"{path} is damaged or of another version: the command that began the sweep "
                "mends it; for another sweep name a new folder for --out"
            ) from None
        self._key = found.key
        return found

    @property
    def key(self) -> bytes:
        """What its records are hashed with; empty where it is of nothing yet."""
        if not self._key:
            self.begun()
        return self._key

    def begin(self, asked: Begun) -> None:
        """Note what the folder is of; raises ``UsageError`` if it is of something else.

        Whose its records are, their hashes say: where they are the asked sweep's, a damaged or
        missing note is written anew.
        """
        try:
            found = self.begun()
        except UsageError:
            if not self._has_records(asked.key):
                raise
            found = None
        if found == asked:
            return
        if not self._has_records(asked.key):
            self._refuse_results(found, asked)
        # A sweep that never finished a shard leaves nothing to lose.
        text = msgspec.json.format(msgspec.json.encode(asked), indent=2) + b"\n"
        self.replace(self.path / SPEC, text)
        self._key = asked.key

    def _has_records(self, key: bytes) -> bool:
        """Whether one of the first files has a record of the sweep with this key."""
        files = (path for path in (self.path / _CELLS).glob("*/*") if path.is_file())
        return any(
            record is not None
            for path in itertools.islice(files, _LOOKED_AT)
            for record in unpack(_bytes_of(path), key)
        )

    def _refuse_results(self, found: Begun | None, asked: Begun) -> None:
        for name in _RESULTS:
            if not (self.path / name).exists():
                continue
            other = f"has {name} and no {SPEC}"
            if found is not None:
                other = f"holds another sweep: {_difference(found, asked)}"
            raise UsageError(f"{self.path} {other}; name another folder for --out")

    def cell_file(self, index: int) -> Path:
        """Return where the records of a cell are."""
        return self.path / _CELLS / f"{index // _A_FOLDER:04d}" / f"{index:07d}"

    def audit_file(self, index: int) -> Path:
        """Return where the whole document of an audit is."""
        return self.path / _AUDITS / f"{index:07d}.json"

    def read(self, index: int) -> bytes:
        """Return the bytes of a cell's file; none where there was no file at the first look.

        Cells are read in order, so that a folder within is listed once.
        """
        within, name = index // _A_FOLDER, f"{index:07d}"
        if self._listed[0] != within:
            try:
                names = frozenset(os.listdir(self.cell_file(index).parent))
            except OSError:
                names = frozenset()
            self._listed = within, names
        if name not in self._listed[1]:
            return b""
        return _bytes_of(self.cell_file(index))

    def append(self, index: int, data: bytes) -> None:
        """Add a record to a cell's file; on an error it is as it was before.

        Raises ``UsageError`` if the disk is full, or the file cannot be written.
        """
        path = self.cell_file(index)
        self._make(path.parent)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                before = os.fstat(descriptor).st_size
                try:
                    _write(descriptor, data)
                except OSError:
                    os.ftruncate(descriptor, before)
                    raise
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._unwritable(path, error) from None

    def replace(self, path: Path, data: bytes) -> None:
        """Put ``data`` in the place of a file, whole or not at all."""
        self._make(path.parent)
        temporary = path.with_name(path.name + _TEMPORARY)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o666)
            try:
                _write(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.rename(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise self._unwritable(path, error) from None

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{folder} is or lies in a file: --out names a folder") from None
        except OSError as error:
            raise self._unwritable(folder, error) from None

    def _unwritable(self, path: Path, error: OSError) -> UsageError:
        return UsageError(f"{path} cannot be written: {error.strerror}; {KEPT}")


def _bytes_of(path: Path) -> bytes:
    """Return the bytes of a file; none where it is gone."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _difference(found: Begun, asked: Begun) -> str:
    """Return in words what is not the same."""
    for name in Spec.__struct_fields__:
        there, here = getattr(found.spec, name), getattr(asked.spec, name)
        if there != here:
            return f"its {name} is {_shown(there)}, here {_shown(here)}"
    if file := _changed(found.files, asked.files):
        return f"{file} has changed since it was begun"
    return difference(found.versions, asked.versions)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _changed(before: dict[str, str | None], now: dict[str, str | None]) -> str | None:
    return next((name for name in before | now if before.get(name) != now.get(name)), None)

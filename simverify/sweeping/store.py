"""The folder of a sweep: its spec, its lock, and a file of records for each cell.

Records are appended. A file that is replaced is written beside, synced and renamed, so it is the
old one or the new one. Nothing is trusted that does not match its hash.
"""

import hashlib
import itertools
import os
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from simverify.arrays import Ints
from simverify.errors import UsageError
from simverify.folders import Lock, is_locked
from simverify.results import SweepVersions
from simverify.simulators.run import Counts
from simverify.sweeping.spec import PartName, SweepSpec, version_difference

# Records: each with its length and its hash, so that a damaged one is seen.
#
# A file is a sequence of records. Where one is cut short or changed, those before it and whole ones
# behind it are still good. The hash covers the sweep's key too, so that a record of another sweep
# is not accepted.


RECORD_MAGIC = b"SVS1"
_LENGTH_BYTES = 8
_HASH_BYTES = 32
HEADER_BYTES = len(RECORD_MAGIC) + _LENGTH_BYTES + _HASH_BYTES


class CountsRecord(msgspec.Struct, frozen=True, tag="counts"):
    """Counts of some shards of a part of a cell; ``shards``: ranges of their numbers."""

    cell: int
    part: PartName
    shards: tuple[tuple[int, int], ...]
    counts: bytes


class ResultRecord(msgspec.Struct, frozen=True, tag="result"):
    """What a cell or an audit came to, as JSON; ``document``: an audit's whole document."""

    cell: int
    kind: Literal["cell", "audit"]
    result: bytes
    document: bytes = b""


Record = CountsRecord | ResultRecord
_DECODER = msgspec.msgpack.Decoder(Record)


def pack_record(record: Record, key: bytes) -> bytes:
    """Return the bytes of a record as they stand in a file of the sweep with this key."""
    return frame_payload(msgspec.msgpack.encode(record), key)


def frame_payload(payload: bytes, key: bytes) -> bytes:
    """Return a payload with its length and its hash."""
    return _record_header(payload, key) + payload


def _record_header(payload: bytes, key: bytes) -> bytes:
    length = len(payload).to_bytes(_LENGTH_BYTES, "little")
    return RECORD_MAGIC + length + hashlib.sha256(key + length + payload).digest()


def unpack_records(data: bytes, key: bytes) -> Iterator[Record | None]:
    """Yield the records of a file; None for each stretch that is damaged, or of another sweep."""
    at = 0
    while at < len(data):
        payload = _read_payload(data, at, key)
        if payload is None:
            yield None
            # Whatever is whole behind it counts: the next one begins with the same bytes.
            at = _next_valid_record(data, at + 1, key)
            continue
        try:
            yield _DECODER.decode(payload)
        except msgspec.DecodeError:
            yield None
        at += HEADER_BYTES + len(payload)


def _read_payload(data: bytes, at: int, key: bytes) -> bytes | None:
    head = data[at : at + HEADER_BYTES]
    length = int.from_bytes(head[len(RECORD_MAGIC) : -_HASH_BYTES], "little")
    payload = data[at + HEADER_BYTES : at + HEADER_BYTES + length]
    return payload if head == _record_header(payload, key) else None


def _next_valid_record(data: bytes, at: int, key: bytes) -> int:
    while (at := data.find(RECORD_MAGIC, at)) >= 0:
        if _read_payload(data, at, key) is not None:
            return at
        at += 1
    return len(data)


class _PackedArray(msgspec.Struct, frozen=True, array_like=True):
    shape: tuple[int, ...]
    kind: str
    data: bytes


class _PackedCounts(msgspec.Struct, frozen=True, array_like=True):
    trials: int
    unsupported: int
    accepted: _PackedArray
    lengths: _PackedArray
    transitions: _PackedArray
    pits: _PackedArray


def pack_counts(counts: Counts, *, small: bool) -> bytes:
    """Return counts as bytes, in the narrowest whole numbers that hold them.

    ``small``: compressed, which takes ten times as long as all the rest: for what is kept, and
    not for what is added up in a moment.
    """
    arrays = [counts.accepted, counts.lengths, counts.transitions, counts.pits]
    packed = _PackedCounts(counts.trials, counts.unsupported, *map(_pack_array, arrays))
    return zlib.compress(msgspec.msgpack.encode(packed), 1 if small else 0)


def unpack_counts(data: bytes) -> Counts:
    """Return what was packed; its hash was checked before."""
    packed = msgspec.msgpack.decode(zlib.decompress(data), type=_PackedCounts)
    trials, unsupported, *arrays = msgspec.structs.astuple(packed)
    accepted, lengths, transitions, pits = map(_unpack_array, arrays)
    return Counts(trials, accepted, lengths, transitions, pits, unsupported)


def _pack_array(values: Ints) -> _PackedArray:
    narrow = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    little = narrow.astype(narrow.dtype.newbyteorder("<"))
    return _PackedArray(values.shape, little.dtype.str, little.tobytes())


def _unpack_array(packed: _PackedArray) -> Ints:
    flat = np.frombuffer(packed.data, np.dtype(packed.kind))
    return flat.astype(np.int64).reshape(packed.shape)


DOCUMENT_FILE = "sweep.json"
META_FILE = "meta.json"
SPEC_FILE = "spec.json"
_LOCK_FILE = "lock"
_CELL_FOLDER = "cells"
_AUDIT_FOLDER = "audits"
_CELLS_PER_FOLDER = 1000
"""Cells in a folder within."""

_RESULT_NAMES = (_CELL_FOLDER, _AUDIT_FOLDER, DOCUMENT_FILE, META_FILE)
"""What a sweep leaves in its folder beside what it is of."""

_TEMPORARY_SUFFIX = ".new"

_MAX_CHECKED_FILES = 100
"""Files of cells that are asked whose they are, where the note on it is damaged."""

RESUME_NOTE = "every finished shard is kept, and the same command goes on from there"


class SweepManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder is of; ``files``: SHA-256 of each file that the sweep names."""

    spec: SweepSpec
    files: dict[str, str | None]
    versions: SweepVersions

    @property
    def key(self) -> bytes:
        """What tells the records of this sweep from those of all others."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()


class SweepFolder:
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
            lock = Lock(self.path / _LOCK_FILE)
        except OSError as error:
            raise self._unwritable(self.path / _LOCK_FILE, error) from None
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
        return is_locked(self.path / _LOCK_FILE)

    def _holder(self) -> str:
        try:
            return f", {(self.path / _LOCK_FILE).read_text(encoding='utf-8')}"
        except (OSError, UnicodeDecodeError):
            return ""

    def begun(self) -> SweepManifest | None:
        """Return what the folder is of; None if it is of nothing yet."""
        path = self.path / SPEC_FILE
        try:
            note = msgspec.json.decode(path.read_bytes(), type=SweepManifest)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        except msgspec.DecodeError:
            raise UsageError(
                f"{path} is damaged or of another version: the command that began the sweep "
                "mends it; for another sweep name a new folder for --out"
            ) from None
        self._key = note.key
        return note

    @property
    def key(self) -> bytes:
        """What its records are hashed with; empty where it is of nothing yet."""
        if not self._key:
            self.begun()
        return self._key

    def begin(self, asked: SweepManifest) -> None:
        """Note what the folder is of; raises ``UsageError`` if it is of something else.

        Whose its records are, their hashes say: where they are the asked sweep's, a damaged or
        missing note is written anew.
        """
        try:
            note = self.begun()
        except UsageError:
            if not self._has_records(asked.key):
                raise
            note = None
        if note == asked:
            return
        if not self._has_records(asked.key):
            self._refuse_results(note, asked)
        # A sweep that never finished a shard leaves nothing to lose.
        text = msgspec.json.format(msgspec.json.encode(asked), indent=2) + b"\n"
        self.replace(self.path / SPEC_FILE, text)
        self._key = asked.key

    def _has_records(self, key: bytes) -> bool:
        """Whether one of the first files has a record of the sweep with this key."""
        files = (path for path in (self.path / _CELL_FOLDER).glob("*/*") if path.is_file())
        return any(
            record is not None
            for path in itertools.islice(files, _MAX_CHECKED_FILES)
            for record in unpack_records(_read_or_empty(path), key)
        )

    def _refuse_results(self, found: SweepManifest | None, asked: SweepManifest) -> None:
        for name in _RESULT_NAMES:
            if not (self.path / name).exists():
                continue
            other = f"has {name} and no {SPEC_FILE}"
            if found is not None:
                other = f"holds another sweep: {_manifest_difference(found, asked)}"
            raise UsageError(f"{self.path} {other}; name another folder for --out")

    def cell_file(self, index: int) -> Path:
        """Return where the records of a cell are."""
        return self.path / _CELL_FOLDER / f"{index // _CELLS_PER_FOLDER:04d}" / f"{index:07d}"

    def audit_file(self, index: int) -> Path:
        """Return where the whole document of an audit is."""
        return self.path / _AUDIT_FOLDER / f"{index:07d}.json"

    def read(self, index: int) -> bytes:
        """Return the bytes of a cell's file; none where there was no file at the first look.

        Cells are read in order, so that a folder within is listed once.
        """
        within, name = index // _CELLS_PER_FOLDER, f"{index:07d}"
        if self._listed[0] != within:
            try:
                names = frozenset(os.listdir(self.cell_file(index).parent))
            except OSError:
                names = frozenset()
            self._listed = within, names
        if name not in self._listed[1]:
            return b""
        return _read_or_empty(self.cell_file(index))

    def append(self, index: int, data: bytes) -> None:
        """Add a record to a cell's file; on an error it is as it was before.

        Raises ``UsageError`` if the disk is full, or the file cannot be written.
        """
        path = self.cell_file(index)
        self._make(path.parent)
        try:
            with path.open("ab", buffering=0) as file:
                before = os.fstat(file.fileno()).st_size
                try:
                    _write_all(file.fileno(), data)
                except OSError:
                    os.ftruncate(file.fileno(), before)
                    raise
        except OSError as error:
            raise self._unwritable(path, error) from None

    def replace(self, path: Path, data: bytes) -> None:
        """Put ``data`` in the place of a file, whole or not at all."""
        self._make(path.parent)
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        try:
            with temporary.open("wb", buffering=0) as file:
                _write_all(file.fileno(), data)
                os.fsync(file.fileno())
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
        return UsageError(f"{path} cannot be written: {error.strerror}; {RESUME_NOTE}")


def _read_or_empty(path: Path) -> bytes:
    """Return the bytes of a file; none where it is gone."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _manifest_difference(found: SweepManifest, asked: SweepManifest) -> str:
    """Return in words what is not the same."""
    for name in SweepSpec.__struct_fields__:
        there, here = getattr(found.spec, name), getattr(asked.spec, name)
        if there != here:
            return f"its {name} is {_value_text(there)}, here {_value_text(here)}"
    for file in found.files | asked.files:
        if found.files.get(file) != asked.files.get(file):
            return f"{file} has changed since it was begun"
    return version_difference(found.versions, asked.versions)


def _value_text(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)

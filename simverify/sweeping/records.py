"""Records of a sweep: each with its length and its hash, so that a damaged one is seen.

A file is a row of records. Where one is cut short or changed, those before it and whole ones
behind it are still good. The hash is of the sweep's key too: a record of another sweep is no
record here.
"""

import hashlib
import zlib
from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from simverify.arrays import Ints
from simverify.simulators.run import Counts
from simverify.sweeping.cells import PartName

MAGIC = b"SVS1"
_LENGTH = 8
_HASH = 32
HEAD = len(MAGIC) + _LENGTH + _HASH


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


def pack(record: Record, key: bytes) -> bytes:
    """Return the bytes of a record as they stand in a file of the sweep with this key."""
    return frame(msgspec.msgpack.encode(record), key)


def frame(payload: bytes, key: bytes) -> bytes:
    """Return a payload with its length and its hash."""
    length = len(payload).to_bytes(_LENGTH, "little")
    return MAGIC + length + _hash(key, length, payload) + payload


def _hash(key: bytes, length: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(key + length + payload).digest()


def unpack(data: bytes, key: bytes) -> Iterator[Record | None]:
    """Yield the records of a file; None for each stretch that is damaged, or of another sweep."""
    at = 0
    while at < len(data):
        payload = _payload(data, at, key)
        if payload is None:
            yield None
            # Whatever is whole behind it counts: the next one begins with the same bytes.
            at = _next_whole(data, at + 1, key)
            continue
        try:
            yield _DECODER.decode(payload)
        except msgspec.DecodeError:
            yield None
        at += HEAD + len(payload)


def _payload(data: bytes, at: int, key: bytes) -> bytes | None:
    head = data[at : at + HEAD]
    if len(head) < HEAD or not head.startswith(MAGIC):
        return None
    length = head[len(MAGIC) : len(MAGIC) + _LENGTH]
    payload = data[at + HEAD : at + HEAD + int.from_bytes(length, "little")]
    same = _hash(key, length, payload) == head[-_HASH:]
    return payload if same else None


def _next_whole(data: bytes, at: int, key: bytes) -> int:
    while (at := data.find(MAGIC, at)) >= 0:
        if _payload(data, at, key) is not None:
            return at
        at += 1
    return len(data)


class _Array(msgspec.Struct, frozen=True, array_like=True):
    shape: tuple[int, ...]
    kind: str
    data: bytes


class _Counts(msgspec.Struct, frozen=True, array_like=True):
    trials: int
    unsupported: int
    accepted: _Array
    lengths: _Array
    transitions: _Array
    pits: _Array


def pack_counts(counts: Counts, *, small: bool) -> bytes:
    """Return counts as bytes, in the narrowest whole numbers that hold them.

    ``small``: compressed, which takes ten times as long as all the rest: for what is kept, and
    not for what is added up in a moment.
    """
    arrays = [counts.accepted, counts.lengths, counts.transitions, counts.pits]
    packed = _Counts(counts.trials, counts.unsupported, *map(_pack_array, arrays))
    return zlib.compress(msgspec.msgpack.encode(packed), 1 if small else 0)


def unpack_counts(data: bytes) -> Counts:
    """Return what was packed; its hash was checked before."""
    packed = msgspec.msgpack.decode(zlib.decompress(data), type=_Counts)
    return Counts(
        packed.trials,
        _array(packed.accepted),
        _array(packed.lengths),
        _array(packed.transitions),
        _array(packed.pits),
        packed.unsupported,
    )


def _pack_array(values: Ints) -> _Array:
    narrow = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    little = narrow.astype(narrow.dtype.newbyteorder("<"))
    return _Array(values.shape, little.dtype.str, little.tobytes())


def _array(packed: _Array) -> Ints:
    flat = np.frombuffer(packed.data, np.dtype(packed.kind))
    return flat.astype(np.int64).reshape(packed.shape)

"""Traces: drafts and logits of a pair of models on disk, replayed without the models.

A trace is a folder: shards of blocks (safetensors, float32 logits: half precision would zero
most of a large vocabulary), and ``manifest.json``, written last, with how they were made and
the SHA-256 of each. Where rows are too large it holds sums of verifiers' runs instead.
"""

import ctypes
import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling
from simverify.results import Decoding

Arrays = dict[str, npt.NDArray[Any]]

MANIFEST = "manifest.json"
STATISTICS = "statistics.safetensors"
VERSION: Literal[1] = 1

_TOGETHER = 1 << 20
"""Entries of logits that become rows at a time."""


class Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of the trace, and the blocks in it."""

    file: str
    bytes: int
    blocks: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a trace was made, and what it consists of.

    ``name``: of the pair, in tables. ``kind``: whole rows, or the sums of the ``rules``' runs.
    ``decoding``: models, prompts, sampling and how drafts were made; its ``tokens`` are those
    that the recording rule, token verification, emitted. ``sha256``: of the manifest itself, with
    "" in this place; it stands for the whole trace.
    """

    version: Literal[1]
    kind: Literal["rows", "statistics"]
    name: str
    gamma: int
    vocab_size: int
    seed: int
    rules: tuple[str, ...]
    decoding: Decoding
    versions: dict[str, str]
    shards: tuple[Shard, ...]
    sha256: str = ""

    @property
    def sampling(self) -> Sampling:
        """Temperature, top-k and top-p that make rows of the logits."""
        found = self.decoding
        return Sampling(found.temperature, found.top_k, found.top_p)

    @property
    def blocks(self) -> int:
        """Blocks of all shards."""
        return sum(shard.blocks for shard in self.shards)

    def sealed(self) -> "Manifest":
        """Return the manifest with its own hash in its place."""
        bare: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, sha256=""))
        if bare["decoding"]["drafter"] is None:
            del bare["decoding"]["drafter"]  # older traces lack it, and keep their hash
        digest = hashlib.sha256(msgspec.json.encode(bare)).hexdigest()
        return msgspec.structs.replace(self, sha256=digest)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A block: target and draft rows ``p``, ``q`` float64 (gamma+1, V) after 0..gamma drafts.

    ``emitted``: the tokens that counted when it was recorded.
    """

    lane: int
    drafts: tuple[int, ...]
    emitted: tuple[int, ...]
    p: Floats
    q: Floats


@dataclass(frozen=True)
class Trace:
    """A folder whose manifest is whole and whose files are there, at their sizes."""

    folder: Path
    manifest: Manifest

    def blocks(self) -> Iterator[Recorded]:
        """Yield the blocks in the order in which they were recorded, a shard in memory at once.

        Raises
        ------
        UsageError
            If a shard is not what the manifest says, or holds what no model can have made.
        """
        for shard in self.manifest.shards:
            arrays = self._arrays(shard)
            _shard_iv(self.folder / shard.file, arrays, self.manifest, shard.blocks)
            yield from self._rows(self.folder / shard.file, arrays)
            del arrays  # the next shard is read once this one is gone
            _give_back()

    def statistics(self) -> Arrays:
        """Return the arrays of a trace of kind ``statistics``. Raises as :meth:`blocks`."""
        (shard,) = self.manifest.shards
        return self._arrays(shard)

    def _arrays(self, shard: Shard) -> Arrays:
        path = self.folder / shard.file
        data = _read(path)
        digest = hashlib.sha256(data).hexdigest()
        if digest != shard.sha256:
            raise UsageError(
                f"trace: {path} has sha256 {digest[:12]}..., expected {shard.sha256[:12]}...: it "
                f"was changed or damaged; record the trace again"
            )
        from safetensors.numpy import load

        try:
            return load(data)
        except Exception as error:
            raise UsageError(f"trace: {path} is no safetensors file: {error}") from None

    def _rows(self, path: Path, arrays: Arrays) -> Iterator[Recorded]:
        sampling, gamma = self.manifest.sampling, self.manifest.gamma
        step = max(1, _TOGETHER // ((gamma + 1) * self.manifest.vocab_size))
        for begin in range(0, len(arrays["lane"]), step):
            part = {name: array[begin : begin + step] for name, array in arrays.items()}
            try:
                p, q = sampling.rows(part["target"]), sampling.rows(part["draft"])
            except ValueError as error:
                raise UsageError(f"trace: {path}, from block {begin} on: {error}") from None
            for i, drafts in enumerate(part["drafts"].tolist()):
                if not q[i, np.arange(gamma), drafts].all():
                    raise UsageError(
                        f"trace: {path}, block {begin + i}: a draft token has probability 0 in "
                        f"its own row: expected one that the draft can propose"
                    )
                emitted = [token for token in part["emitted"][i].tolist() if token >= 0]
                lane = int(part["lane"][i])
                yield Recorded(lane, tuple(drafts), tuple(emitted), p[i], q[i])


def _give_back() -> None:
    """Have the C library hand what was freed back to the system.

    It keeps what lies between blocks that stay, so that a long trace would come to hold more with
    every shard. Where it cannot be asked, as on macOS, nothing is done.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def open_trace(folder: Path) -> Trace:
    """Return the trace in ``folder``.

    Raises
    ------
    UsageError
        If there is none, it is not whole, or it is of another version.
    """
    needs_safetensors()
    path = folder / MANIFEST
    if not path.exists():
        why = "its recording was not finished" if folder.is_dir() else "there is no such folder"
        raise UsageError(f"trace: {folder} holds no {MANIFEST}: {why}")
    data = _read(path)
    try:
        version = msgspec.json.decode(data, type=_Version).version
    except msgspec.DecodeError as error:
        raise UsageError(f"trace: {path} is no manifest of a trace: {error}") from None
    if version != VERSION:
        raise UsageError(
            f"trace: {path} is of version {version}, expected {VERSION}: record it again"
        )
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise UsageError(f"trace: {path} is no manifest of a trace: {error}") from None
    if manifest != manifest.sealed():
        raise UsageError(f"trace: {path} does not match its own sha256: it was changed or damaged")
    files = [shard.file for shard in manifest.shards]
    if len(set(files)) < len(files) or not files or (manifest.kind != "rows" and len(files) > 1):
        expected = "one or more" if manifest.kind == "rows" else "one"
        raise UsageError(
            f"trace: {path} names {len(files)} files of {manifest.kind}, expected {expected}, each "
            f"once"
        )
    if manifest.decoding.lanes < 2:
        raise UsageError(
            f"trace: {path} has {manifest.decoding.lanes} lanes, expected 2 or more: "
            f"intervals come from what differs between lanes"
        )
    for shard in manifest.shards:
        _there_iv(folder / shard.file, shard.bytes)
    return Trace(folder, manifest)


def needs_safetensors() -> None:
    """Raise ``UsageError`` where the library that reads and writes shards is missing."""
    if importlib.util.find_spec("safetensors") is None:
        raise UsageError("a trace needs safetensors: pip install 'simverify[models]'")


class _Version(msgspec.Struct):
    version: int


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"trace: cannot read {path}: {error.strerror}") from None


def _there_iv(path: Path, size: int) -> None:
    if not path.is_file():
        raise UsageError(f"trace: {path} is missing, which {MANIFEST} names")
    found = path.stat().st_size
    if found != size:
        raise UsageError(f"trace: {path} has {found:,} bytes, expected {size:,}: it was cut or "
                         f"changed")  # fmt: skip


def _shard_iv(path: Path, arrays: Arrays, manifest: Manifest, blocks: int) -> None:
    """Refuse a shard whose arrays are not those of ``blocks`` blocks of the manifest's models."""
    slots = manifest.gamma + 1
    expected = {
        "target": ("float32", (blocks, slots, manifest.vocab_size)),
        "draft": ("float32", (blocks, slots, manifest.vocab_size)),
        "drafts": ("int64", (blocks, manifest.gamma)),
        "emitted": ("int64", (blocks, slots)),
        "lane": ("int64", (blocks,)),
    }
    found = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            raise UsageError(f"trace: {path}: {name} is {found.get(name)}, expected "
                             f"{expected.get(name)}, as {MANIFEST} says")  # fmt: skip
    limits = (
        ("drafts", 0, manifest.vocab_size),
        ("emitted", -1, manifest.vocab_size),
        ("lane", 0, manifest.decoding.lanes),
    )
    for name, least, most in limits:
        low, high = int(arrays[name].min(initial=0)), int(arrays[name].max(initial=0))
        if low < least or high >= most:
            raise UsageError(
                f"trace: {path}: {name} spans {low}..{high}, expected {least}..{most - 1}"
            )

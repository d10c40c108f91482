"""Traces: drafts and logits of a pair of models on disk, replayed without the models.

A trace is a folder: shards of blocks (safetensors, float32 logits: half precision would zero
most of a large vocabulary), and ``manifest.json``, written last, with how they were made and
the SHA-256 of each. Where rows are too large it holds sums of verifiers' runs instead.
"""

import ctypes
import hashlib
import importlib.util
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.results import Decoding

Arrays = dict[str, npt.NDArray[Any]]

MANIFEST_FILE = "manifest.json"
STATISTICS_FILE = "statistics.safetensors"
TRACE_VERSION: Literal[1] = 1

_CHUNK_ENTRIES = 1 << 20
"""Entries of logits that become rows at a time."""


class TraceShard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    shards: tuple[TraceShard, ...]
    sha256: str = ""

    @property
    def sampling(self) -> Sampling:
        """Temperature, top-k and top-p that make rows of the logits."""
        decoding = self.decoding
        return Sampling(decoding.temperature, decoding.top_k, decoding.top_p)

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
class RecordedBlock:
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

    def blocks(self) -> Iterator[RecordedBlock]:
        """Yield the blocks in the order in which they were recorded, a shard in memory at once.

        Raises ``UsageError`` if a shard is not what the manifest says, or holds what no model can
        have made.
        """
        for shard in self.manifest.shards:
            arrays = self._arrays(shard)
            _check_shard(self.folder / shard.file, arrays, self.manifest, shard.blocks)
            yield from self._rows(self.folder / shard.file, arrays)
            del arrays  # the next shard is read once this one is gone
            _release_memory()

    def statistics(self) -> Arrays:
        """Return the arrays of a trace of kind ``statistics``. Raises as :meth:`blocks`."""
        (shard,) = self.manifest.shards
        return self._arrays(shard)

    def _arrays(self, shard: TraceShard) -> Arrays:
        path = self.folder / shard.file
        data = _read_bytes(path)
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

    def _rows(self, path: Path, arrays: Arrays) -> Iterator[RecordedBlock]:
        sampling, gamma = self.manifest.sampling, self.manifest.gamma
        step = max(1, _CHUNK_ENTRIES // ((gamma + 1) * self.manifest.vocab_size))
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
                yield RecordedBlock(lane, tuple(drafts), tuple(emitted), p[i], q[i])


def _release_memory() -> None:
    """Have the C library hand what was freed back to the system.

    It keeps what lies between blocks that stay, so that a long trace would come to hold more with
    every shard. Where it cannot be asked, as on macOS, nothing is done.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def open_trace(folder: Path) -> Trace:
    """Return the trace in ``folder``.

    Raises ``UsageError`` if there is none, it is not whole, or it is of another version.
    """
    require_safetensors()
    path = folder / MANIFEST_FILE
    if not path.exists():
        why = "its recording was not finished" if folder.is_dir() else "there is no such folder"
        raise UsageError(f"trace: {folder} holds no {MANIFEST_FILE}: {why}")
    data = _read_bytes(path)
    try:
        version = msgspec.json.decode(data, type=_VersionField).version
        if version != TRACE_VERSION:
            raise UsageError(
                f"trace: {path} is of version {version}, expected {TRACE_VERSION}: record it again"
            )
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
        file = folder / shard.file
        if not file.is_file():
            raise UsageError(f"trace: {file} is missing, which {MANIFEST_FILE} names")
        if (actual := file.stat().st_size) != shard.bytes:
            raise UsageError(
                f"trace: {file} has {actual:,} bytes, expected {shard.bytes:,}: it was cut or "
                "changed"
            )
    return Trace(folder, manifest)


def require_safetensors() -> None:
    """Raise ``UsageError`` where the library that reads and writes shards is missing."""
    if importlib.util.find_spec("safetensors") is None:
        raise UsageError("a trace needs safetensors: pip install 'simverify[models]'")


class _VersionField(msgspec.Struct):
    version: int


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"trace: cannot read {path}: {error.strerror}") from None


def _check_shard(path: Path, arrays: Arrays, manifest: Manifest, blocks: int) -> None:
    """Refuse a shard whose arrays are not those of ``blocks`` blocks of the manifest's models."""
    slots = manifest.gamma + 1
    expected = {
        "target": ("float32", (blocks, slots, manifest.vocab_size)),
        "draft": ("float32", (blocks, slots, manifest.vocab_size)),
        "drafts": ("int64", (blocks, manifest.gamma)),
        "emitted": ("int64", (blocks, slots)),
        "lane": ("int64", (blocks,)),
    }
    actual = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    for name in {**expected, **actual}:
        if expected.get(name) != actual.get(name):
            raise UsageError(
                f"trace: {path}: {name} is {actual.get(name)}, expected "
                f"{expected.get(name)}, as {MANIFEST_FILE} says"
            )
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


# Recovery of an interrupted recording: the blocks of its shards, up to the last whole round.


PARTIAL_MANIFEST = ".begun.json"
"""File that says how a recording is made while it is not finished."""


@dataclass(frozen=True, eq=False)
class PartialTrace:
    """A shard that is there: its file, its bytes, and its arrays."""

    path: Path
    data: bytes
    arrays: dict[str, npt.NDArray[Any]]

    @property
    def emitted(self) -> list[tuple[int, ...]]:
        """Tokens of each block."""
        return [tuple(row[row >= 0].tolist()) for row in self.arrays["emitted"]]


def read_partial_shards(folder: Path) -> list[PartialTrace]:
    """Return the shards of a recording that was killed, in order.

    Raises ``UsageError`` if one cannot be read.
    """
    from safetensors.numpy import load

    shards = []
    for path in sorted(folder.glob("shard-*.safetensors")):
        try:
            data = path.read_bytes()
            shards.append(PartialTrace(path, data, load(data)))
        except Exception as error:
            raise UsageError(
                f"trace: {path} of an unfinished recording cannot be read ({error}): delete the "
                f"folder to begin anew"
            ) from None
    return shards


def complete_rounds(
    shards: Sequence[PartialTrace], lanes: int, lane_tokens: int
) -> tuple[int, int]:
    """Return how many rounds are whole, and how many blocks stand behind the last of them.

    In a round each lane that has not emitted its tokens yet adds a block.
    """
    counts: Counter[int] = Counter()
    emitted: Counter[int] = Counter()
    order: list[int] = []
    for shard in shards:
        for lane, tokens in zip(shard.arrays["lane"].tolist(), shard.emitted, strict=True):
            order.append(counts[lane])
            counts[lane] += 1
            emitted[lane] += len(tokens)
    going = [counts[lane] for lane in range(lanes) if emitted[lane] < lane_tokens]
    rounds = min(going, default=max(counts.values(), default=0))
    return rounds, sum(number >= rounds for number in order)


# Writing a trace: bounded in bytes, and complete only when its last file is written.


Logits = npt.NDArray[np.float32]

SHARD_BYTES = 1 << 26


class TraceWriter:
    """Writes a trace into a new folder; used as a context.

    A context that ends with an exception, an interrupt too, takes away what it has written. One
    that is killed leaves shards without a manifest, which :meth:`resume` continues. Raises
    ``UsageError`` if the folder holds files already, or cannot be written to.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._shards: list[TraceShard] = []
        self._written: list[Path] = []
        self._waiting: list[tuple[int, Sequence[int], Sequence[int], Logits, Logits]] = []
        self._bytes = 0
        try:
            self._new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            taken = any(folder.iterdir())
        except OSError as error:
            raise UsageError(f"trace: cannot write to {folder}: {error.strerror}") from None
        begun = folder / PARTIAL_MANIFEST
        self._begun = begun.is_file() and not (folder / MANIFEST_FILE).exists()
        if taken and not self._begun:
            raise UsageError(f"trace: {folder} holds files already: name a new folder")
        if self._begun and begun.read_bytes() != _sealed_manifest(manifest):
            raise UsageError(
                f"trace: {folder} holds an unfinished recording that was asked for otherwise: "
                f"name a new folder, or delete it"
            )

    def resume(self, lanes: int, lane_tokens: int) -> list[list[tuple[int, ...]]]:
        """Go on with what a killed recording left, and leave the like; of the rows kind alone.

        Returns what each lane emitted, block by block, in as many rounds as are whole.
        """
        blocks: list[list[tuple[int, ...]]] = [[] for _ in range(lanes)]
        shards = read_partial_shards(self._folder) if self._begun else []
        self._written += [self._folder / PARTIAL_MANIFEST, *(shard.path for shard in shards)]
        rounds, extra = complete_rounds(shards, lanes, lane_tokens)
        for shard in shards:
            for lane, tokens in zip(shard.arrays["lane"].tolist(), shard.emitted, strict=True):
                if len(blocks[lane]) < rounds:
                    blocks[lane].append(tokens)
        while extra:
            last = shards.pop()
            remaining = max(len(last.arrays["lane"]) - extra, 0)
            extra -= len(last.arrays["lane"]) - remaining
            columns = [last.arrays[name] for name in ("target", "draft")]
            first = last.arrays["lane"].tolist(), last.arrays["drafts"].tolist(), last.emitted
            self._waiting = [
                (lane, drafts, tokens, p.copy(), q.copy())
                for lane, drafts, tokens, p, q in islice(
                    zip(*first, *columns, strict=True), remaining
                )
            ]
            self._bytes = sum(block[3].nbytes + block[4].nbytes for block in self._waiting)
            last.path.unlink()
        for shard in shards:
            self._seal(shard.path.name, shard.data, len(shard.arrays["lane"]))
        self._write(PARTIAL_MANIFEST, _sealed_manifest(self._manifest))
        return blocks

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for path in self._written:
                path.unlink(missing_ok=True)
            if self._new:
                self._folder.rmdir()

    def add(
        self,
        lane: int,
        drafts: Sequence[int],
        emitted: Sequence[int],
        target_logits: Logits,
        draft_logits: Logits,
    ) -> None:
        """Record a block: logits float32 (gamma+1, V) after 0..gamma of its drafts."""
        # Copies: a view would keep a whole batch of logits.
        logits = target_logits.astype(np.float32), draft_logits.astype(np.float32)
        self._waiting.append((lane, drafts, emitted, *logits))
        self._bytes += logits[0].nbytes + logits[1].nbytes
        if self._bytes >= SHARD_BYTES:
            self._flush()

    def statistics(self, arrays: Arrays, blocks: int) -> None:
        """Record the sums of verifiers' runs on ``blocks`` blocks in the place of rows."""
        self._save(STATISTICS_FILE, arrays, blocks)

    def finish(self) -> Manifest:
        """Write what is left, and the manifest; the trace is whole then."""
        self._flush()
        manifest = msgspec.structs.replace(self._manifest, shards=tuple(self._shards)).sealed()
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        self._write(MANIFEST_FILE, text + b"\n")
        (self._folder / PARTIAL_MANIFEST).unlink(missing_ok=True)
        return manifest

    def _flush(self) -> None:
        if not self._waiting:
            return
        lanes, drafts, emitted, target, draft = zip(*self._waiting, strict=True)
        padded = np.full((len(emitted), self._manifest.gamma + 1), -1, np.int64)
        for row, tokens in zip(padded, emitted, strict=True):
            row[: len(tokens)] = tokens
        arrays: dict[str, npt.NDArray[Any]] = {
            "target": np.stack(target),
            "draft": np.stack(draft),
            "drafts": np.array(drafts, np.int64),
            "emitted": padded,
            "lane": np.array(lanes, np.int64),
        }
        self._save(f"shard-{len(self._shards):05}.safetensors", arrays, len(lanes))
        self._waiting, self._bytes = [], 0

    def _save(self, name: str, arrays: Arrays, blocks: int) -> None:
        from safetensors.numpy import save

        data = save(arrays)
        self._write(name, data)
        self._seal(name, data, blocks)

    def _seal(self, name: str, data: bytes, blocks: int) -> None:
        digest = hashlib.sha256(data).hexdigest()
        self._shards.append(TraceShard(file=name, bytes=len(data), blocks=blocks, sha256=digest))

    def _write(self, name: str, data: bytes) -> None:
        part, path = self._folder / f".{name}.part", self._folder / name
        self._written += [part, path]
        try:
            part.write_bytes(data)
            part.replace(path)
        except OSError as error:
            raise UsageError(f"trace: {path} cannot be written: {error.strerror}") from None


def _sealed_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest.sealed())


def bytes_per_block(gamma: int, vocab_size: int) -> int:
    """Bytes of a block in a shard, its header apart."""
    return 8 * (gamma + 1) * vocab_size + 8 * (2 * gamma + 2)


def check_space(folder: Path, tokens: int, gamma: int, vocab_size: int, max_bytes: int) -> None:
    """Raise ``UsageError`` unless rows of ``tokens`` emitted tokens are sure to fit.

    A call emits one token or more, so there are no more blocks than tokens.
    """
    each = bytes_per_block(gamma, vocab_size)
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    limits = {f"--max-bytes is {max_bytes:,}": max_bytes, f"{there} has {free:,} left": free}
    for words, limit in limits.items():
        if tokens * each > limit:
            raise UsageError(
                f"trace: {tokens:,} tokens at gamma {gamma} and V = {vocab_size:,} may take "
                f"{tokens * each:,} bytes of rows, and {words}: {limit // each:,} tokens fit; "
                f"take fewer, raise the limit, or record --statistics"
            )

"""Writing a trace: bounded in bytes, and never whole before its last file is there."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from simverify.errors import UsageError
from simverify.models.real.trace import MANIFEST, STATISTICS, Arrays, Manifest, Shard
from simverify.models.real.trace_begun import BEGUN, begun_shards, rounds_of, waiting_blocks

Logits = npt.NDArray[np.float32]

SHARD_BYTES = 1 << 26


class TraceWriter:
    """Writes a trace into a new folder; used as a context.

    A context that ends with an exception, an interrupt too, takes away what it has written.
    One that is killed leaves shards without a manifest, which :meth:`resume` goes on with.

    Raises
    ------
    UsageError
        If the folder holds files already, or cannot be written to.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._shards: list[Shard] = []
        self._written: list[Path] = []
        self._waiting: list[tuple[int, Sequence[int], Sequence[int], Logits, Logits]] = []
        self._bytes = 0
        try:
            self._new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            taken = any(folder.iterdir())
        except OSError as error:
            raise UsageError(f"trace: cannot write to {folder}: {error.strerror}") from None
        self._begun = (folder / BEGUN).is_file() and not (folder / MANIFEST).exists()
        if taken and not self._begun:
            raise UsageError(f"trace: {folder} holds files already: name a new folder")
        if self._begun and (folder / BEGUN).read_bytes() != _sealed(manifest):
            raise UsageError(
                f"trace: {folder} holds an unfinished recording that was asked for otherwise: "
                f"name a new folder, or delete it"
            )

    def resume(self, lanes: int, lane_tokens: int) -> list[list[tuple[int, ...]]]:
        """Go on with what a killed recording left, and leave the like; of the rows kind alone.

        Returns what each lane emitted, block by block, in as many rounds as are whole.
        """
        found: list[list[tuple[int, ...]]] = [[] for _ in range(lanes)]
        shards = begun_shards(self._folder) if self._begun else []
        self._written += [self._folder / BEGUN, *(shard.path for shard in shards)]
        rounds, extra = rounds_of(shards, lanes, lane_tokens)
        for shard in shards:
            for lane, own in zip(shard.arrays["lane"].tolist(), shard.emitted, strict=True):
                if len(found[lane]) < rounds:
                    found[lane].append(own)
        while extra:
            last = shards.pop()
            kept = max(len(last.arrays["lane"]) - extra, 0)
            extra -= len(last.arrays["lane"]) - kept
            self._waiting = waiting_blocks(last, kept)
            self._bytes = sum(block[3].nbytes + block[4].nbytes for block in self._waiting)
            last.path.unlink()
        for shard in shards:
            self._seal(shard.path.name, shard.data, len(shard.arrays["lane"]))
        self._write(BEGUN, _sealed(self._manifest))
        return found

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
        self._save(STATISTICS, arrays, blocks)

    def finish(self) -> Manifest:
        """Write what is left, and the manifest; the trace is whole then."""
        self._flush()
        manifest = msgspec.structs.replace(self._manifest, shards=tuple(self._shards)).sealed()
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        self._write(MANIFEST, text + b"\n")
        (self._folder / BEGUN).unlink(missing_ok=True)
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
        self._shards.append(Shard(file=name, bytes=len(data), blocks=blocks, sha256=digest))

    def _write(self, name: str, data: bytes) -> None:
        part, path = self._folder / f".{name}.part", self._folder / name
        self._written += [part, path]
        try:
            part.write_bytes(data)
            part.replace(path)
        except OSError as error:
            raise UsageError(f"trace: {path} cannot be written: {error.strerror}") from None


def _sealed(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest.sealed())


def block_bytes(gamma: int, vocab_size: int) -> int:
    """Bytes of a block in a shard, its header apart."""
    return 8 * (gamma + 1) * vocab_size + 8 * (2 * gamma + 2)


def room_iv(folder: Path, tokens: int, gamma: int, vocab_size: int, max_bytes: int) -> None:
    """Raise ``UsageError`` unless rows of ``tokens`` emitted tokens are sure to fit.

    A call emits one token or more, so there are no more blocks than tokens.
    """
    each = block_bytes(gamma, vocab_size)
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    limits = (
        (max_bytes, f"--max-bytes is {max_bytes:,}"),
        (shutil.disk_usage(there).free, f"{there} has {shutil.disk_usage(there).free:,} left"),
    )
    for limit, words in limits:
        if tokens * each > limit:
            raise UsageError(
                f"trace: {tokens:,} tokens at gamma {gamma} and V = {vocab_size:,} may take "
                f"{tokens * each:,} bytes of rows, and {words}: {limit // each:,} tokens fit; "
                f"take fewer, raise the limit, or record --statistics"
            )

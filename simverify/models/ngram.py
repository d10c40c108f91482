"""The ngram model: byte-level language models with Witten-Bell smoothing, trained here.

With c(h, x) the count of x after context h, N(h) its sum over x, T(h) the number of
distinct x, and h' = h without its first byte,

    P(x | h) = (c(h, x) + T(h) P(x | h')) / (N(h) + T(h)),

uniform over the 256 bytes below the empty context; an unseen context passes to h'. So
every row sums to 1 and every byte has p > 0. The target's n-grams have 5 bytes (contexts
of 4), the draft's 3; both share their counts, so the draft is the target's lower level.

Reference: Witten and Bell, "The zero-frequency problem", IEEE Trans. Inf. Theory 37(4),
1991; interpolated as in Chen and Goodman, "An empirical study of smoothing techniques for
language modeling", 1998, eq. 2.16.
"""

import hashlib
import importlib
import os
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simverify.arrays import Row
from simverify.errors import SimverifyError
from simverify.folders import cache_folder

# The text of the ngram model: what every Python installation carries, so no download.
#
# The help topics of ``pydoc`` and the standard library's sources. Other Pythons have other
# sources, so results that rest on this text carry its SHA-256.


Bytes = npt.NDArray[np.uint8]

CHUNK_BYTES = 4096
"""Bytes that are trained on, or held out, together."""

HELD_OUT_PERIOD = 16
"""The last of every 16 chunks is held out."""

_EXCLUDED_PACKAGES = {
    "encodings",  # charmap tables, not language
    "idlelib",  # absent where Tk is packaged apart
    "pydoc_data",  # the topics, read already
    "test",  # 17 MB, absent from most distributions
}
_EXCLUDED_FOLDERS = {"__pycache__", "dist-packages", "site-packages"}
_MAX_CORPUS_BYTES = 12_000_000


def corpus_text(library: Path | None = None) -> bytes:
    """Return the help topics followed by the library's sources, at most 12 MB.

    ``library`` is the folder of the standard library (default: this Python's). Topics go by
    name, sources by relative path; files that cannot be read, and a folder that does not
    exist (a zipped library), are left out. Deterministic for one Python installation.
    Raises ``SimverifyError`` if neither topics nor sources are there.
    """
    folder = Path(sysconfig.get_path("stdlib")) if library is None else library
    text = bytearray(_help_topics())
    for name in _source_names(folder):
        if len(text) >= _MAX_CORPUS_BYTES:
            break
        with suppress(OSError):
            text += (folder / name).read_bytes()
    if not text:
        raise SimverifyError(
            f"ngram needs a text to train on, and this Python has neither pydoc_data nor sources "
            f"in {folder}: install the full standard library"
        )
    return bytes(text[:_MAX_CORPUS_BYTES])


def split_corpus(text: bytes) -> tuple[Bytes, Bytes]:
    """Split a text into training and held-out chunks, each uint8 (chunks, 4096).

    The last chunk of every 16 is held out; an incomplete chunk at the end is dropped.
    """
    count = len(text) // CHUNK_BYTES
    chunks = np.frombuffer(text, np.uint8, count * CHUNK_BYTES).reshape(count, CHUNK_BYTES)
    held_out = np.arange(count) % HELD_OUT_PERIOD == HELD_OUT_PERIOD - 1
    return chunks[~held_out], chunks[held_out]


def _help_topics() -> bytes:
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError:
        return b""
    return "".join(topics[name] for name in sorted(topics)).encode()


def _source_names(folder: Path) -> list[str]:
    """Relative names of the .py files, sorted as text so that no file system decides."""
    names = []
    # Pruned on the way down: site-packages may hold a hundred thousand files.
    for root, folders, files in os.walk(folder):
        relative = Path(root).relative_to(folder)
        unwanted = _EXCLUDED_FOLDERS if relative.parts else _EXCLUDED_FOLDERS | _EXCLUDED_PACKAGES
        folders[:] = [name for name in folders if name not in unwanted]
        names += [(relative / name).as_posix() for name in files if name.endswith(".py")]
    return sorted(names)


VOCAB_SIZE = 256
TARGET_LENGTH = 5
DRAFT_LENGTH = 3

_CACHE_FORMAT = "1"
"""Raise it when counts, splitting or the file's fields change: old cache files go unused."""

_MAX_CONTEXTS = 65_536

Codes = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NgramOrder:
    """The n-grams of one length, their bytes packed big-endian: context << 8 | last byte.

    ``codes`` uint64 (n,) ascending, ``counts`` int64 (n,); ``contexts`` uint64 (m,)
    ascending, the codes from ``starts[i]`` to ``starts[i+1]`` follow context i;
    ``totals`` int64 (m,) is N(h), and T(h) is ``diff(starts)``.
    """

    codes: Codes
    counts: Counts
    contexts: Codes
    starts: Counts
    totals: Counts


@dataclass(frozen=True, eq=False)
class NgramModel:
    """A 5-gram target and a 3-gram draft over bytes; rows sum to 1 and are positive.

    ``contexts`` uint8 (n, 4): held-out text from which trials start. Perplexities are per
    byte on the held-out text. ``orders[k-1]`` holds the n-grams of k bytes, k = 1..5.
    """

    corpus_sha256: str
    target_perplexity: float
    draft_perplexity: float
    contexts: Bytes
    orders: tuple[NgramOrder, ...]
    name: str = "ngram"
    vocab_size: int = VOCAB_SIZE

    def target(self, prefix: Sequence[int]) -> Row:
        """Row (256,) of the target after ``prefix``, of which the last 4 bytes count."""
        return self._row(prefix, TARGET_LENGTH)

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (256,) of the draft after ``prefix``, of which the last 2 bytes count."""
        return self._row(prefix, DRAFT_LENGTH)

    def _row(self, prefix: Sequence[int], length: int) -> Row:
        context = prefix[max(len(prefix) - length + 1, 0) :]
        code = 0
        for token in context:
            if not 0 <= token < VOCAB_SIZE:
                raise ValueError(f"prefix holds token {token}: ngram's tokens are bytes, 0..255")
            code = code << 8 | int(token)
        codes = np.uint64(code << 8) | np.arange(VOCAB_SIZE, dtype=np.uint64)
        return interpolate(self.orders[: len(context) + 1], codes)


def interpolate(orders: Sequence[NgramOrder], codes: Codes) -> Row:
    """Witten-Bell probability of the last byte of each code given the bytes before it.

    ``orders`` are those of lengths 1..k; ``codes`` uint64 (n,) pack k bytes or more, of
    which the last k count. Returns float64 (n,).
    """
    p = np.full(codes.shape, 1.0 / VOCAB_SIZE)
    for length, order in enumerate(orders, 1):
        ngram = codes & np.uint64(256**length - 1)
        context = find_sorted(order.contexts, ngram >> np.uint64(8))
        seen = context >= 0
        total = np.where(seen, order.totals[context], 0)
        kinds = np.where(seen, np.diff(order.starts)[context], 1)  # T; unseen: p stays p
        at = find_sorted(order.codes, ngram)
        count = np.where(at >= 0, order.counts[at], 0)
        p = (count + kinds * p) / (total + kinds)
    return p


def find_sorted(keys: Codes, values: Codes) -> Counts:
    """Index of each of ``values`` in the ascending ``keys``, -1 where it is not there."""
    at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.where(keys[at] == values, at, -1)


def train_ngram(text: bytes) -> NgramModel:
    """Train target and draft on a text of at least 64 KiB (16 chunks, one held out).

    11.4 MB take about 3 s and 300 MB. Raises ``ValueError`` if the text is shorter.
    """
    least = CHUNK_BYTES * HELD_OUT_PERIOD
    if len(text) < least:
        raise ValueError(
            f"text has {len(text)} bytes: ngram needs {least} or more to hold some out"
        )
    training, held_out = split_corpus(text)
    orders = tuple(_make_order(*_count_windows(training, k)) for k in range(1, TARGET_LENGTH + 1))
    unseen = _window_codes(held_out, TARGET_LENGTH)
    starts = _window_codes(held_out, TARGET_LENGTH - 1)
    some = np.linspace(0, len(starts) - 1, min(len(starts), _MAX_CONTEXTS)).astype(np.intp)
    return NgramModel(
        corpus_sha256=hashlib.sha256(text).hexdigest(),
        target_perplexity=_perplexity(orders, unseen),
        draft_perplexity=_perplexity(orders[:DRAFT_LENGTH], unseen),
        contexts=starts[some].astype(">u4").view(np.uint8).reshape(-1, 4),
        orders=orders,
    )


def load_ngram(*, announce: Callable[[str], None] | None = None) -> NgramModel:
    """Return the model of this Python's own text, from the cache folder or trained anew.

    The folder is that of ``simverify.folders``; one that cannot be written is no error, a
    file that is not what was written is replaced.
    ``announce`` receives a line before training, which takes some seconds.
    """
    text = corpus_text()
    sha256 = hashlib.sha256(text).hexdigest()
    folder = cache_folder("ngram")
    path = None if folder is None else folder / f"ngram-{_CACHE_FORMAT}-{sha256[:16]}.npz"
    model = None if path is None else _read_cached(path, sha256)
    if model is None:
        if announce is not None:
            announce(f"training ngram on {len(text) / 1e6:.1f} MB of Python's own text ...")
        model = train_ngram(text)
        if path is not None:
            with suppress(OSError):
                _write_cached(path, model)
    return model


def _window_codes(chunks: Bytes, length: int) -> Codes:
    """Codes of all windows of ``length`` bytes that lie in one chunk, as one axis."""
    windows = chunks.shape[1] - length + 1
    codes = np.zeros((len(chunks), windows), np.uint64)
    for offset in range(length):
        codes <<= np.uint64(8)
        codes |= chunks[:, offset : offset + windows]
    return codes.ravel()


def _count_windows(chunks: Bytes, length: int) -> tuple[Codes, Counts]:
    # np.unique holds three copies at its peak; sorting in place holds one.
    codes = _window_codes(chunks, length)
    codes.sort()
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return codes[first], np.diff(first, append=len(codes))


def _make_order(codes: Codes, counts: Counts) -> NgramOrder:
    contexts, starts = np.unique(codes >> np.uint64(8), return_index=True)
    return NgramOrder(
        codes=codes,
        counts=counts,
        contexts=contexts,
        starts=np.append(starts, len(codes)).astype(np.int64),
        totals=np.add.reduceat(counts, starts),
    )


def _perplexity(orders: Sequence[NgramOrder], codes: Codes) -> float:
    return float(np.exp(-np.mean(np.log(interpolate(orders, codes)))))


def _read_cached(path: Path, sha256: str) -> NgramModel | None:
    """Return the cached model, or None if the file is missing or not what was written."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as fields:
            # A damaged array header can ask for fewer bytes, and then no checksum is looked at.
            intact = fields.zip is not None and fields.zip.testzip() is None
            if not intact or str(fields["corpus_sha256"]) != sha256:
                return None
            return NgramModel(
                corpus_sha256=sha256,
                target_perplexity=float(fields["target_perplexity"]),
                draft_perplexity=float(fields["draft_perplexity"]),
                contexts=fields["contexts"],
                orders=tuple(
                    _make_order(fields[f"codes_{k}"], fields[f"counts_{k}"])
                    for k in range(1, TARGET_LENGTH + 1)
                ),
            )
    # A damaged file may raise nearly anything, and the answer is always to train again.
    except Exception:
        return None


def _write_cached(path: Path, model: NgramModel) -> None:
    names = ("corpus_sha256", "target_perplexity", "draft_perplexity", "contexts")
    fields = {name: np.asarray(getattr(model, name)) for name in names}
    for k, order in enumerate(model.orders, 1):
        fields[f"codes_{k}"] = order.codes
        fields[f"counts_{k}"] = order.counts
    # Another process may read or write the same file: it appears whole or not at all.
    handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **fields)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise

"""The text of the ngram model: what every Python installation carries, so no download.

The help topics of ``pydoc`` and the standard library's sources. Other Pythons have other
sources, so results that rest on this text carry its SHA-256.
"""

import importlib
import os
import sysconfig
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simverify.errors import SimverifyError

Bytes = npt.NDArray[np.uint8]

CHUNK = 4096
"""Bytes that are trained on, or held out, together."""

HELD_OUT_PERIOD = 16
"""The last of every 16 chunks is held out."""

_LEFT_OUT = {
    "encodings",  # charmap tables, not language
    "idlelib",  # absent where Tk is packaged apart
    "pydoc_data",  # the topics, read already
    "test",  # 17 MB, absent from most distributions
}
_NOT_OURS = {"__pycache__", "dist-packages", "site-packages"}
_MOST_BYTES = 12_000_000


def corpus_text(library: Path | None = None) -> bytes:
    """Return the help topics followed by the library's sources, at most 12 MB.

    ``library`` is the folder of the standard library (default: this Python's). Topics go by
    name, sources by relative path; files that cannot be read, and a folder that does not
    exist (a zipped library), are left out. Deterministic for one Python installation.
    Raises ``SimverifyError`` if neither topics nor sources are there.
    """
    folder = Path(sysconfig.get_path("stdlib")) if library is None else library
    parts = [_topics()]
    size = len(parts[0])
    for name in _source_names(folder):
        if size >= _MOST_BYTES:
            break
        try:
            parts.append((folder / name).read_bytes())
        except OSError:
            continue
        size += len(parts[-1])
    text = b"".join(parts)[:_MOST_BYTES]
    if not text:
        raise SimverifyError(
            f"ngram needs a text to train on, and this Python has neither pydoc_data nor sources "
            f"in {folder}: install the full standard library"
        )
    return text


def split(text: bytes) -> tuple[Bytes, Bytes]:
    """Split a text into training and held-out chunks, each uint8 (chunks, 4096).

    The last chunk of every 16 is held out; an incomplete chunk at the end is dropped.
    """
    count = len(text) // CHUNK
    chunks = np.frombuffer(text, np.uint8, count * CHUNK).reshape(count, CHUNK)
    held_out = np.arange(count) % HELD_OUT_PERIOD == HELD_OUT_PERIOD - 1
    return chunks[~held_out], chunks[held_out]


def _topics() -> bytes:
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
        here = Path(root).relative_to(folder)
        unwanted = _NOT_OURS if here.parts else _NOT_OURS | _LEFT_OUT
        folders[:] = [name for name in folders if name not in unwanted]
        names += [(here / name).as_posix() for name in files if name.endswith(".py")]
    return sorted(names)

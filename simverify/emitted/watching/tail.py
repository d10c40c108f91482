"""A log that grows: its new lines, each once, also where it is rotated, cut or replaced."""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

_HEAD = 4096
_CHUNK = 1 << 16
_LONGEST = 1 << 26
"""Bytes of a line at most: what is longer is none of a log."""


@dataclass
class Place:
    """How far a log was read: ``offset`` bytes of the file ``device``, ``inode``.

    ``head``: hash of its first ``head_size`` bytes, by which a file of another name or place is
    known again. ``lines``: read in all, over all files; ``restarts``: times that another began.
    """

    offset: int = 0
    device: int = 0
    inode: int = 0
    head: str = ""
    head_size: int = 0
    lines: int = 0
    restarts: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


class Tail:
    """Reads what was added to ``path`` since ``place``; ``say`` is told of what is lost or odd."""

    def __init__(self, path: Path, place: Place, say: Callable[[str], None]) -> None:
        self._path, self.place, self._say = path, place, say
        self._file: FileIO | None = None
        self._missing = False

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield new whole lines, ``most`` at most; ``place`` is behind each that was yielded."""
        if self._file is not None and self._rewritten(self._file):
            self.close()
        for _ in range(most):
            line = self._next()
            if line is None:
                return
            yield line

    def _next(self) -> bytes | None:
        while True:
            if self._file is None and not self._open():
                return None
            assert self._file is not None
            line = self._line(self._file)
            if line is not None:
                return line
            if not self._replaced(self._file):
                return None
            self.close()

    def _line(self, file: FileIO) -> bytes | None:
        """Return the next whole line, or None where there is none yet.

        Read past all buffers, which may hold what a file was before it was written anew.
        """
        size = _CHUNK
        while True:
            content = os.pread(file.fileno(), size, self.place.offset)
            end = content.find(b"\n") + 1
            if end or size >= _LONGEST:
                break
            if len(content) < size:
                return None
            size *= 8
        line = content[: end or size]
        self.place.offset += len(line)
        self.place.lines += 1
        self._remember(file)
        return line

    def _remember(self, file: FileIO) -> None:
        size = min(self.place.offset, _HEAD)
        if size != self.place.head_size:
            self.place.head, self.place.head_size = _head(file, size), size

    def _replaced(self, file: FileIO) -> bool:
        """Whether the name has another file now that this one is read to its end."""
        try:
            named = os.stat(self._path)
        except OSError:
            return False  # moved away, and nothing in its place yet: what is added still comes here
        own = os.fstat(file.fileno())
        if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino):
            return False
        self._begin_anew("was rotated: going on with the new file", own.st_size)
        return True

    def _rewritten(self, file: FileIO) -> bool:
        """Whether this very file was cut or written anew."""
        size = os.fstat(file.fileno()).st_size
        if size < self.place.offset:
            why = f"was cut from {self.place.offset:,} bytes or more to {size:,}"
            self._begin_anew(f"{why}: read from its start; lines not read by then are lost", 0)
            return True
        if _head(file, self.place.head_size) != self.place.head and self.place.head_size:
            self._begin_anew("was written anew: read from its start", 0)
            return True
        return False

    def _begin_anew(self, why: str, size: int) -> None:
        left = size - self.place.offset
        more = f"; {left:,} bytes of a half line at its end were not read" if left > 0 else ""
        self._say(f"{self._path} {why}{more}")
        self.place.offset = self.place.head_size = 0
        self.place.head = ""
        self.place.restarts += 1
        self.place.device = self.place.inode = 0

    def _open(self) -> bool:
        """Open the file that was being read, by whatever name, or the one of the name."""
        try:
            file = self._path.open("rb", buffering=0)
        except OSError as error:
            if not self._missing:
                self._say(f"{self._path} cannot be read: {error.strerror}; waiting for it")
            self._missing = True
            return False
        if self._missing:
            self._say(f"{self._path} is there")
            self._missing = False
        place = self.place
        stat = os.fstat(file.fileno())
        if place.offset and (stat.st_dev, stat.st_ino) != (place.device, place.inode):
            file = self._known(file)
            stat = os.fstat(file.fileno())
        if place.offset and self._is(file):
            place.device, place.inode = stat.st_dev, stat.st_ino
        elif place.offset:
            self._begin_anew(
                f"is not the file of which {place.offset:,} bytes were read: read from its start", 0
            )
        place.device, place.inode = stat.st_dev, stat.st_ino
        self._file = file
        return True

    def _is(self, file: FileIO) -> bool:
        """Whether a file begins as what was read."""
        long_enough = os.fstat(file.fileno()).st_size >= self.place.offset
        return long_enough and _head(file, self.place.head_size) == self.place.head

    def _known(self, file: FileIO) -> FileIO:
        """Return the file that was being read, if it lies beside the name; else ``file``."""
        if self._is(file):
            return file  # copied here from elsewhere
        for other in sorted(self._path.parent.glob(f"{self._path.name}*")):
            try:
                found = other.stat()
                if (found.st_dev, found.st_ino) == (self.place.device, self.place.inode):
                    old = other.open("rb", buffering=0)
                    file.close()
                    return old
            except OSError:
                continue
        return file


def _head(file: FileIO, size: int) -> str:
    return hashlib.sha256(os.pread(file.fileno(), size, 0)).hexdigest()

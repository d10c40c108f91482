"""Where an audit in a child process is, in memory that its parent reads when the child is gone.

A process that is killed says no last words. What it was doing, and by when a call of the code
under audit has to be over, therefore stands on a board that outlives it.
"""

import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SIZE = 4096
_HEAD = struct.Struct("ddH")

_NEVER = (float("inf"), float("inf"))


class Board:
    """Shared memory with the place of the audit and its deadlines.

    One on the wall clock (``time.monotonic``), one in processor seconds of the process.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self.write(_NEVER, "")

    def write(self, deadlines: tuple[float, float], place: str) -> None:
        """Put up all."""
        text = place.encode(errors="replace")[: _SIZE - _HEAD.size]
        self._memory[: _HEAD.size + len(text)] = _HEAD.pack(*deadlines, len(text)) + text

    @property
    def deadlines(self) -> tuple[float, float]:
        """When the call of the code has to be over; infinite where nothing limits it."""
        wall, processor, _ = _HEAD.unpack_from(self._memory)
        return wall, processor

    @property
    def place(self) -> str:
        """What the audit was doing."""
        size = int(_HEAD.unpack_from(self._memory)[2])
        return self._memory[_HEAD.size : _HEAD.size + size].decode(errors="replace")


def _in(seconds: float) -> tuple[float, float]:
    return time.monotonic() + seconds, time.process_time() + seconds


_board: Board | None = None


def use(board: Board) -> None:
    """Let this process, a child, write on ``board`` from here on."""
    global _board
    _board = board


def doing(place: str) -> None:
    """Say what begins; nobody reads it where there is no parent."""
    if _board is not None:
        _board.write(_board.deadlines, place)


def extend(seconds: float) -> None:
    """Say that what runs is interrupted so much later than now instead."""
    if _board is not None:
        _board.write(_in(seconds), _board.place)


@contextmanager
def until(seconds: float) -> Iterator[None]:
    """Say that what runs inside is interrupted after ``seconds``."""
    if _board is None:
        yield
        return
    before = _board.deadlines
    _board.write(min(before, _in(seconds)), _board.place)
    try:
        yield
    finally:
        _board.write(before, _board.place)

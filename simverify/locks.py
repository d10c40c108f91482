"""Lock files: one process holds a file at a time, and others are told that it is taken."""

__simverify_role__ = "shared"


import fcntl
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_LOCK_ATTEMPTS = 20
_RETRY_SECONDS = 0.025
"""How often a lock is asked for, and the seconds between: who only looks has it for an instant."""


class Lock:
    """The lock of one file, which is made; the system lets go when the process ends, however.

    Raises ``OSError`` where the file cannot be opened, or :meth:`take` where its disk has no locks.
    """

    def __init__(self, path: Path) -> None:
        # Unbuffered: on a full disk a note that was not written would be tried again at the end.
        self._file = path.open("ab", buffering=0)

    def take(self, note: str = "") -> bool:
        """Whether the lock is had now; ``note`` goes into the file, for others to read."""
        for attempt in range(_LOCK_ATTEMPTS):
            if attempt:
                time.sleep(_RETRY_SECONDS)
            if _try_lock(self._file, fcntl.LOCK_EX):
                with suppress(OSError):  # only a message would miss it
                    self._file.truncate(0)
                    self._file.write(note.encode())
                return True
        return False

    def release(self) -> None:
        """Give the lock back, if it is had, and close the file."""
        with self._file, suppress(OSError):  # of a disk without locks
            _unlock(self._file)


def is_locked(path: Path) -> bool:
    """Whether a process has the lock of a file, which need not be there."""
    try:
        with path.open("r") as file:
            if not _try_lock(file, fcntl.LOCK_SH):
                return True
            _unlock(file)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _try_lock(file: IO[Any], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: IO[Any]) -> None:
    # By word: a process that another thread is just starting has copies of all descriptors until
    # its program is loaded, and one of them would keep the lock after this file is closed.
    fcntl.flock(file, fcntl.LOCK_UN)

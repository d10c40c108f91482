"""The three standard streams: closed, broken or full, they cost a line and no traceback."""

import errno
import io
import os
import sys

UNWRITABLE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing to standard output fails with, when its reader is not what is missing."""


def open_streams() -> bool:
    """Put the null device where a stream is closed; false if standard output was.

    A file opened later would otherwise take the stream's number, and be written into.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
    if sys.stderr is None:  # then print() would go to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdout.buffer, io.RawIOBase):
        # Unbuffered (python -u, PYTHONUNBUFFERED) a write that is cut short goes unnoticed.
        encoding = sys.stdout.encoding
        sys.stdout = open(1, "w", buffering=1, encoding=encoding, closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Where the encoding has no "±", a result with "?" in its place beats a traceback.
            stream.reconfigure(errors="replace")
    return 1 not in closed


def discard_output() -> None:
    """Let what is still written to standard output go nowhere: its reader has left."""
    _redirect_to_null(1)


def print_error(line: str) -> None:
    """Print ``line`` on standard error, if anyone still reads it."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _redirect_to_null(2)


def _redirect_to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

"""A program that is kept: lines in, lines out, within a time, and gone when it is told to go."""

import os
import selectors
import shlex
import signal
import subprocess
import time
import warnings
from contextlib import suppress
from typing import Any

from simverify.engines.bridge.protocol import LONGEST_ANSWER, shown
from simverify.errors import UsageError
from simverify.symbolic.guards.orphans import die_with_parent
from simverify.symbolic.guards.watchdog import kept_waiting

_CHUNK = 1 << 16
_TOGETHER = 1 << 13
"""Bytes that go together."""

_FAREWELL = 1.0
"""Seconds that a program has to end once its output is closed, before it is made to."""

_KEPT = 4_000
"""Bytes of standard error that are kept, its last ones."""

_HEARD = 1 << 16
"""Bytes of standard error that the caller has not taken yet, beyond which more is dropped: a
program that fills it without end would fill our memory."""


class Ended(Exception):
    """No line came: the message says why, such as "hangs: ..."; ``kind`` is the part before."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Program:
    """A started program, by its command line; no shell is asked.

    ``heard``: what it wrote on standard error, for the caller to take.
    Raises ``UsageError`` for a command that cannot be started.
    """

    def __init__(self, command: str) -> None:
        self.name = command
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--command {command!r}: {str(error).lower()}") from None
        if not words:
            raise UsageError("--command is empty: name the program, such as ./harness")
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of threads, which the one call before the program leaves alone.
                warnings.simplefilter("ignore", DeprecationWarning)
                # A group of its own: what it starts goes with it.
                self._process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    bufsize=0, start_new_session=True, preexec_fn=die_with_parent,
                )  # fmt: skip
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(
                f"--command {command!r} cannot be started: {words[0]}: {reason}"
            ) from None
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (_descriptor(pipe) for pipe in pipes)
        self._waiting, self._got, self._lines = bytearray(), bytearray(), list[bytes]()
        self._complaints, self.heard = bytearray(), bytearray()
        self._closed = False
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._out, selectors.EVENT_READ)
        self._ready.register(self._err, selectors.EVENT_READ)
        self._writing = False

    def send(self, line: bytes, *, more: bool = False) -> None:
        """Write as much as the pipe takes now; :meth:`receive` writes the rest.

        ``more``: that other lines come at once, so that they may go together: each write wakes
        the program, and costs more than the line.
        """
        self._waiting += line
        if not more or len(self._waiting) > _TOGETHER:
            self._write()

    def is_silent(self) -> bool:
        """Whether nothing has come that no :meth:`receive` took."""
        self._pump(0.0)
        return not (self._lines or self._got)

    def receive(self, seconds: float) -> bytes:
        """Return the next line, without its end; raises :class:`Ended` if none comes.

        ``seconds``: those in which the program waits for a processor are not counted, and what has
        come is taken though they are over: this process may have waited for one as well.
        """
        if self._lines:
            return self._lines.pop(0)
        if self._waiting:
            self._write()
        ends, waited = time.monotonic() + seconds, self._kept_waiting()
        while True:
            left = ends - time.monotonic()
            self._pump(max(left, 0.0))
            if self._lines:
                return self._lines.pop(0)
            if self._closed:
                raise self._how_it_ended()
            if left <= 0:
                ends += (now := self._kept_waiting()) - waited
                if now <= waited:
                    raise self._late(seconds)
                waited = now
            if len(self._got) > LONGEST_ANSWER:
                raise Ended(
                    "answer", f"wrote {LONGEST_ANSWER:,} bytes without an end of line: "
                    f"{shown(bytes(self._got[:1000]))}"
                )  # fmt: skip

    @property
    def complaint(self) -> str:
        """The last line on its standard error, in quotes; "" if there is none."""
        text = bytes(self._complaints).strip().rpartition(b"\n")[2]
        return shown(text) if text else ""

    def stop(self) -> None:
        """End it and all that it started, and wait until it is gone."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._ready.close()
        if self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)  # its input is closed: it may go by itself
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _kept_waiting(self) -> float:
        return kept_waiting(self._process.pid, self._process.pid)

    def _pump(self, seconds: float) -> None:
        """Wait for one of the pipes, and move what can be moved."""
        if self._closed:
            return
        for key, _ in self._ready.select(seconds):
            if key.fd == self._in:
                self._write()
            elif key.fd == self._out:
                self._read()
            else:
                self._listen()

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                while self._waiting:
                    del self._waiting[: os.write(self._in, self._waiting)]
            except BrokenPipeError:
                self._waiting.clear()  # its output says how it ended
        if bool(self._waiting) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._ready.register(self._in, selectors.EVENT_WRITE)
            else:
                self._ready.unregister(self._in)

    def _read(self) -> None:
        new = os.read(self._out, _CHUNK)
        self._closed = not new
        self._got += new
        if b"\n" in new:
            *lines, rest = bytes(self._got).split(b"\n")
            self._lines += lines
            self._got = bytearray(rest)

    def _listen(self) -> None:
        new = os.read(self._err, _CHUNK)
        if not new:
            self._ready.unregister(self._err)
        self.heard += new[: _HEARD - len(self.heard)]
        self._complaints = (self._complaints + new)[-_KEPT:]

    def _how_it_ended(self) -> Ended:
        began = f", in the middle of a line, {shown(bytes(self._got))}" if self._got else ""
        try:
            code = self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            return Ended("ends", f"closed its standard output and did not end{began}")
        while self._err in self._ready.get_map() and self._ready.select(0):
            self._listen()
        said = f"; its last words on standard error: {self.complaint}" if self.complaint else ""
        if code < 0:
            return Ended("crashes", f"was ended by {_signal(-code)}{began}{said}")
        return Ended("ends", f"ended itself with exit code {code}{began}{said}")

    def _late(self, seconds: float) -> Ended:
        code = self._process.poll()
        if code is not None:
            held = "and what it started keeps its standard output open"
            return Ended("ends", f"ended itself with exit code {code}, {held}")
        return Ended("hangs", self._why_late(seconds))

    def _why_late(self, seconds: float) -> str:
        late = f"did not answer within {seconds:g} s"
        if self._waiting:
            return f"{late}, and left its input unread"
        if self._got:
            return f"{late} but for the beginning of a line, {shown(bytes(self._got))}"
        return f"{late}: does it read line by line, and flush its output after each?"


def _descriptor(pipe: Any) -> int:
    number: int = pipe.fileno()
    os.set_blocking(number, False)
    return number


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    meaning = {"SIGSEGV": " (a segmentation fault)", "SIGABRT": " (it aborted)"}.get(name, "")
    return f"the signal {name}{meaning}"

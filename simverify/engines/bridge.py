"""Verifiers in other languages: a program that answers line by line, or a shared library."""

__simverify_role__ = "wrapper"


import ctypes
import functools
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from simverify.checks import clean_line
from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.outcomes import InvalidTokens
from simverify.symbolic.provenance import CallBroken
from simverify.symbolic.watchdog import (
    DeadlineExpired,
    deadline,
    die_with_parent,
    run_queue_seconds,
    uninterruptible_call,
)

# The protocol between an audit and a program: version 1, one JSON object a line.
#
# The program says hello once, unasked. Then it answers each line with one line, in order.


PROTOCOL_VERSION = 1

COIN_PRECISIONS = {"float64": (53, 1e-9), "float32": (24, 1e-6)}
"""What a program may compute in: the widest coins that it can hold, and what rounding explains."""

MAX_ANSWER_BYTES = 1 << 20
"""Bytes of an answer: what has no end of line by then is no answer."""

EXAMPLE_HELLO = '{"simverify": 1, "bits": 53, "dtype": "float64"}'
"""The first line of a program, as an example."""

EXAMPLE_ANSWER = '{"call": 0, "tokens": [2, 0], "coins": 3}'

REQUEST_PREFIX = "on the line "
"""Comes before a request where it is told what was sent."""

_MAX_QUOTED_LENGTH = 160


class UnreadableLine(Exception):
    """A line that is not the expected one; the message says what it is."""


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a program begins.

    ``simverify``: the version of the protocol. ``bits``: its coins are multiples of 2^-bits.
    ``dtype``: what it computes in, "float64" or "float32".
    """

    simverify: int
    bits: int
    dtype: str


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a program answers: the number of the call, the tokens, how many coins it read."""

    call: int
    tokens: list[int]
    coins: int


@dataclass(frozen=True)
class CallRequest:
    """One call: the arrays of the contract, float64 and int64, and the coins, float64 (n,)."""

    target_probs: Any
    draft_probs: Any
    draft_tokens: Any
    coins: Any

    def line(self, number: int) -> bytes:
        """Return the line that asks for the call of that number, with its end.

        Numbers are the shortest decimals that give the same float64 again.
        """
        p, q, x = self.target_probs, self.draft_probs, self.draft_tokens
        block = _encoded_block(p.shape, p.tobytes(), q.tobytes(), x.tobytes())
        coins = msgspec.json.encode(self.coins.tolist())
        return b'{"call":%d,%s"coins":%s}\n' % (number, block, coins)

    def text(self) -> str:
        """Return the line of a first call, as it is shown."""
        return self.line(0).decode().strip()


@functools.lru_cache(maxsize=4096)
def _encoded_block(shape: tuple[int, int], target: bytes, draft: bytes, tokens: bytes) -> bytes:
    """Return what stands before the coins: an audit asks for few blocks, and often."""
    rows, vocab = shape
    whole = {
        "gamma": rows - 1,
        "vocab": vocab,
        "target_probs": np.frombuffer(target).reshape(shape).tolist(),
        "draft_probs": np.frombuffer(draft).reshape(rows - 1, vocab).tolist(),
        "draft_tokens": np.frombuffer(tokens, dtype=np.int64).tolist(),
    }
    return msgspec.json.encode(whole)[1:-1] + b","


def parse_request(line: str) -> CallRequest:
    """Return the call that a line asks for."""
    given = json.loads(line)
    return CallRequest(
        np.array(given["target_probs"], dtype=np.float64),
        np.array(given["draft_probs"], dtype=np.float64),
        np.array(given["draft_tokens"], dtype=np.int64),
        np.array(given["coins"], dtype=np.float64),
    )


def read_hello(line: bytes, program: str) -> Hello:
    """Read a program's first line; raises ``SimverifyError`` if it is no hello of this version."""
    try:
        hello = msgspec.json.decode(line, type=Hello)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SimverifyError(
            f"{program} began with {quote_output(line)} ({_error_reason(error)}): expected one "
            f"line such as {EXAMPLE_HELLO}"
        ) from None
    if hello.simverify != PROTOCOL_VERSION:
        raise SimverifyError(
            f"{program} speaks version {hello.simverify} of the protocol: expected "
            f"{PROTOCOL_VERSION}"
        )
    if hello.dtype not in COIN_PRECISIONS:
        raise SimverifyError(
            f"{program} computes in {hello.dtype!r}: expected float64 or float32, in which "
            "rounding can be told from faults"
        )
    most, _ = COIN_PRECISIONS[hello.dtype]
    if not 1 <= hello.bits <= most:
        raise SimverifyError(
            f"{program} has coins of {hello.bits} bits in {hello.dtype}: expected 1 to {most}"
        )
    return hello


def read_answer(line: bytes, number: int) -> Answer:
    """Read the answer to the call of that number; raises :class:`UnreadableLine`."""
    try:
        answer = _decode_answer(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableLine(
            f"answered {quote_output(line)} ({_error_reason(error)}), expected one line such as "
            f"{EXAMPLE_ANSWER}"
        ) from None
    if answer.call != number:
        raise UnreadableLine(
            f"answered call {answer.call}, expected call {number}: answer each line with one line, "
            "in the same order"
        )
    if answer.coins < 0:
        raise UnreadableLine(f"says that it read {answer.coins} coins: 0 or more are expected")
    return answer


_decode_answer = msgspec.json.Decoder(Answer).decode


def quote_output(text: bytes) -> str:
    """Return what a program wrote, in quotes and short."""
    start = text[: 4 * _MAX_QUOTED_LENGTH].decode(errors="replace")
    return repr(clean_line(start, _MAX_QUOTED_LENGTH)) if text else "nothing"


def _error_reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    first = str(error).partition("\n")[0]
    if isinstance(error, msgspec.ValidationError):
        return first[:1].lower() + first[1:]
    return f"not JSON: {first}"


# A program that is kept running: lines in, lines out, within a time, and ended when asked.


_READ_CHUNK = 1 << 16
_WRITE_CHUNK = 1 << 13
"""Bytes that go together."""

_EXIT_GRACE_SECONDS = 1.0
"""Seconds that a program has to end once its output is closed, before it is made to."""

_MAX_STDERR_TAIL = 4_000
"""Bytes of standard error that are kept, its last ones."""

_MAX_STDERR_BACKLOG = 1 << 16
"""Bytes of standard error that the caller has not taken yet, beyond which more is dropped: a
program that fills it without end would fill our memory."""


class ProgramEnded(Exception):
    """No line came: the message says why, such as "hangs: ..."; ``kind`` is the part before."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ProgramProcess:
    """A started program, by its command line, without a shell.

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
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(
                f"--command {command!r} cannot be started: {words[0]}: {reason}"
            ) from None
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (_file_descriptor(pipe) for pipe in pipes)
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
        if not more or len(self._waiting) > _WRITE_CHUNK:
            self._write()

    def is_silent(self) -> bool:
        """Whether nothing has come that no :meth:`receive` took."""
        self._pump(0.0)
        return not (self._lines or self._got)

    def receive(self, seconds: float) -> bytes:
        """Return the next line, without its end; raises :class:`ProgramEnded` if none comes.

        ``seconds``: those in which the program waits for a processor are not counted, and what has
        come is taken though they are over: this process may have waited for one as well.
        """
        if self._lines:
            return self._lines.pop(0)
        if self._waiting:
            self._write()
        pid, ends = self._process.pid, time.monotonic() + seconds
        waited = run_queue_seconds(pid, pid)
        while True:
            left = ends - time.monotonic()
            self._pump(max(left, 0.0))
            if self._lines:
                return self._lines.pop(0)
            if self._closed:
                raise self._how_it_ended()
            if left <= 0:
                ends += (now := run_queue_seconds(pid, pid)) - waited
                if now <= waited:
                    raise self._late(seconds)
                waited = now
            if len(self._got) > MAX_ANSWER_BYTES:
                raise ProgramEnded(
                    "answer",
                    f"wrote {MAX_ANSWER_BYTES:,} bytes without an end of line: "
                    f"{quote_output(bytes(self._got[:1000]))}",
                )

    @property
    def complaint(self) -> str:
        """The last line on its standard error, in quotes; "" if there is none."""
        text = bytes(self._complaints).strip().rpartition(b"\n")[2]
        return quote_output(text) if text else ""

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
        new = os.read(self._out, _READ_CHUNK)
        self._closed = not new
        self._got += new
        if b"\n" in new:
            *lines, rest = bytes(self._got).split(b"\n")
            self._lines += lines
            self._got = bytearray(rest)

    def _listen(self) -> None:
        new = os.read(self._err, _READ_CHUNK)
        if not new:
            self._ready.unregister(self._err)
        self.heard += new[: _MAX_STDERR_BACKLOG - len(self.heard)]
        self._complaints = (self._complaints + new)[-_MAX_STDERR_TAIL:]

    def _how_it_ended(self) -> ProgramEnded:
        began = f", in the middle of a line, {quote_output(bytes(self._got))}" if self._got else ""
        try:
            code = self._process.wait(_EXIT_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return ProgramEnded("ends", f"closed its standard output and did not end{began}")
        while self._err in self._ready.get_map() and self._ready.select(0):
            self._listen()
        words = f"; its last words on standard error: {self.complaint}" if self.complaint else ""
        if code < 0:
            return ProgramEnded("crashes", f"was ended by {_signal_text(-code)}{began}{words}")
        return ProgramEnded("ends", f"ended itself with exit code {code}{began}{words}")

    def _late(self, seconds: float) -> ProgramEnded:
        code = self._process.poll()
        if code is not None:
            held = "and what it started keeps its standard output open"
            return ProgramEnded("ends", f"ended itself with exit code {code}, {held}")
        if self._waiting:
            why = ", and left its input unread"
        elif self._got:
            why = f" but for the beginning of a line, {quote_output(bytes(self._got))}"
        else:
            why = ": does it read line by line, and flush its output after each?"
        return ProgramEnded("hangs", f"did not answer within {seconds:g} s{why}")


def _file_descriptor(pipe: Any) -> int:
    number: int = pipe.fileno()
    os.set_blocking(number, False)
    return number


def _signal_text(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    meaning = {"SIGSEGV": " (a segmentation fault)", "SIGABRT": " (it aborted)"}.get(name, "")
    return f"the signal {name}{meaning}"


# Determinism: whether code is a function of its input. Calls are repeated, now and later.


FIRST_REPEATED_CALLS = 32
"""First calls that are all repeated; of the later ones every ``REPEAT_INTERVAL``-th."""

REPEAT_INTERVAL = 16
DELAYED_REPEAT_INTERVAL = 64
"""So often one more call is kept, and repeated as many calls later."""

_CONFIRMING_REPEATS = 12
"""Repeats before one of two faults is named: random tokens are hardly the same so often."""

Tokens = list[int]


@dataclass
class DeterminismCheck:
    """Repeats some of the calls of ``ask``, and says what they show.

    ``others(request, coins)``: the tokens of the same call with other numbers behind so many
    coins, those that it is said to have read. ``more``: what it means if they are not the same.
    """

    ask: Callable[[CallRequest], Tokens]
    others: Callable[[CallRequest, int], Tokens]
    more: str
    calls: int = 0
    delayed: tuple[CallRequest, Tokens] | None = None

    def after(self, request: CallRequest, tokens: Tokens, coins: int) -> None:
        """Look at one more call; raises :class:`CallBroken` for what is no function of it."""
        self.calls += 1
        if self.calls <= FIRST_REPEATED_CALLS or self.calls % REPEAT_INTERVAL == 0:
            self._now(request, tokens, coins)
        if self.calls % DELAYED_REPEAT_INTERVAL == 0:
            if self.delayed is not None:
                self.compare(*self.delayed, self.ask(self.delayed[0]))
            self.delayed = (request, tokens)

    def _now(self, request: CallRequest, tokens: Tokens, coins: int) -> None:
        again = self.others(request, coins)
        if again == tokens:
            return
        # Both again: is it the other numbers, or is it nothing that was given?
        for _ in range(_CONFIRMING_REPEATS):
            self.compare(request, tokens, self.ask(request))
            self.compare(request, again, self.others(request, coins))
        raise CallBroken(
            "coins", self.more.format(coins=coins, tokens=tokens, again=again), request.text()
        )

    @staticmethod
    def compare(request: CallRequest, tokens: Tokens, again: Tokens) -> None:
        """Raise :class:`CallBroken` where the same call gave other tokens."""
        if again != tokens:
            raise CallBroken(
                "own-randomness",
                f"returned {tokens}, and {again} when it was asked the same again: it draws random "
                "numbers of its own, or keeps something between calls; its coins must decide all",
                request.text(),
            )


def with_changed_coins(coins: Any, first: int, bits: int) -> Any:
    """Return ``coins`` with others on the grid of 2^-``bits`` from number ``first`` on."""
    changed = coins.copy()
    scale = float(2**bits)
    changed[first:] = np.floor((coins[first:] + 0.382) % 1.0 * scale) / scale
    return changed


# ``--command``: a program that is started once and answers a line for every call.


HELLO_SECONDS = 30.0
"""A program may load much before it says hello."""

COMMAND_CALL_SECONDS = 20.0
"""A call that takes longer hangs."""

_MAX_RESTARTS = 3
"""Times that a program is started again after a call that broke it."""


@dataclass(frozen=True)
class SentRequest:
    """A call whose line was written. ``again``: one that repeats an earlier call of the stream."""

    request: CallRequest
    number: int


class CommandVerify:
    """The program as ``f(target_probs, draft_probs, draft_tokens, coins) -> tokens``.

    ``command``: the command line, split as a shell would; no shell is started. ``seconds``: limit
    of one call. ``used``: how many coins, from the first on, the last call says that it read.
    ``bits``: its coins are multiples of 2^-bits. ``tolerance``: what the rounding of its precision
    explains.

    Raises ``UsageError`` if the command cannot be started, or, of a call, the program needs more
    coins than it has; ``SimverifyError`` if it does not say hello; of a call ``CallBroken``: it
    died, hangs, or answered what is no answer. It is started again for the next call, a few times.
    """

    def __init__(self, command: str, *, seconds: float = COMMAND_CALL_SECONDS) -> None:
        self.command, self.seconds = command, seconds
        self.used = 0
        self._starts, self._number = 0, 0
        self._again = DeterminismCheck(
            lambda request: self._call(request)[0],
            self._with_others,
            "says that it read {coins} coins, and later ones change its tokens from {tokens} to "
            '{again}: "coins" is to be 1 more than the number of the last coin that it reads',
        )
        self._program: ProgramProcess | None = self._start()

    def __call__(self, target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> Any:
        """Ask one call and wait for it. Raises as the class says."""
        request = CallRequest(target_probs, draft_probs, draft_tokens, coins)
        tokens, used = self._call(request)
        self._again.after(request, tokens, used)
        self.used = used
        return tokens

    def ask(
        self, target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any
    ) -> SentRequest:
        """Write the line of a call, and do not wait; ask :meth:`answer` in the same order."""
        return self._sent(CallRequest(target_probs, draft_probs, draft_tokens, coins))

    def answer(self, sent: SentRequest) -> Any:
        """Return the tokens of a call that was sent. Raises as the class says."""
        with self._in_step():
            tokens, _ = self._received(sent)
        return tokens

    def repeat(self, sent: SentRequest, tokens: Any) -> None:
        """Ask a call of a stream again, if it is its turn; all answers of it are in by now."""
        if sent.number < FIRST_REPEATED_CALLS or sent.number % REPEAT_INTERVAL == 0:
            again, _ = self._call(sent.request)
            DeterminismCheck.compare(sent.request, tokens, again)

    def close(self) -> None:
        """End the program; it is started again for the next call."""
        program, self._program = self._program, None
        if program is not None:
            program.stop()

    def _with_others(self, request: CallRequest, coins: int) -> list[int]:
        changed = with_changed_coins(request.coins, coins, self.bits)
        return self._call(replace(request, coins=changed))[0]

    def _start(self) -> ProgramProcess:
        program = ProgramProcess(self.command)
        try:
            hello = read_hello(program.receive(HELLO_SECONDS), self.command)
        except ProgramEnded as ended:
            program.stop()
            raise SimverifyError(f"{self.command} said no hello: {ended}") from None
        except BaseException:
            program.stop()
            raise
        self.bits = hello.bits
        self.tolerance = COIN_PRECISIONS[hello.dtype][1]
        return program

    def _running(self) -> ProgramProcess:
        if self._program is None:
            self._starts += 1
            self._program = self._start()
        return self._program

    def _call(self, request: CallRequest) -> tuple[list[int], int]:
        with self._in_step():
            return self._received(self._sent(request, alone=True))

    @contextmanager
    def _in_step(self) -> Iterator[None]:
        try:
            yield
        except (CallBroken, SimverifyError):
            raise
        except BaseException:  # a deadline, or Ctrl-C: its next answer would be this one's
            self.close()
            raise

    def _sent(self, request: CallRequest, *, alone: bool = False) -> SentRequest:
        if self._starts > _MAX_RESTARTS:
            raise CallBroken("ends", f"broke {self._starts} times", request.text())
        program = self._running()
        pending = SentRequest(request, self._number)
        self._number += 1
        if alone and not program.is_silent():
            with suppress(ProgramEnded):
                unasked = quote_output(program.receive(0.1))
                rule = "answer each line with one line"
                self._broken(pending, "answer", f"wrote {unasked} unasked: {rule}")
        program.send(request.line(pending.number), more=not alone)
        return pending

    def _received(self, sent: SentRequest) -> tuple[list[int], int]:
        program = self._running()
        try:
            answer = read_answer(program.receive(self.seconds), sent.number)
        except ProgramEnded as ended:
            self._broken(sent, ended.kind, str(ended))
        except UnreadableLine as error:
            self._broken(sent, "answer", str(error))
        if program.heard:
            # Where what Python code prints is counted.
            sys.stdout.write(program.heard.decode(errors="replace"))
            program.heard.clear()
        if answer.coins > len(sent.request.coins):
            raise UsageError(
                f"{self.command} needs {answer.coins} coins where it was given "
                f"{len(sent.request.coins)}: name --coins {answer.coins}, or the most that it "
                "reads in a call"
            )
        return answer.tokens, answer.coins

    def _broken(self, sent: SentRequest, kind: str, message: str) -> Any:
        self.close()
        raise CallBroken(kind, message, sent.request.text())


# ``--library``: a function of a shared library with the C ABI, called in this process.
#
# ``int verify(const double *p, const double *q, const int *x, int gamma, int V,
# const double *coins, int *out)``: rows (gamma+1, V), (gamma, V) one after the other, the drafted
# tokens, the coins; it writes the tokens to ``out`` (gamma+1) and returns how many, or a negative
# number that is an error of its own.


C_SIGNATURE = (
    "int verify(const double *p, const double *q, const int *x, int gamma, int V, "
    "const double *coins, int *out)"
)

LIBRARY_CALL_SECONDS = 20.0
"""A call that takes longer hangs."""

LIBRARY_LOAD_SECONDS = 30.0
"""So long may a library take to load: it may run code of its own then."""

_COIN_BITS = 53
_GUARD_LENGTH = 64
"""Numbers behind the coins and behind ``out``: what reads or writes them shows."""

_GUARD_VALUES = (np.arange(_GUARD_LENGTH) * 0.618 + 0.3) % 1.0
_ALTERNATE_GUARD_VALUES = 1.0 - _GUARD_VALUES

_UNWRITTEN_TOKEN = -2_000_000_011
"""What stands in ``out`` before a call."""


class LibraryVerify:
    """The function as ``f(target_probs, draft_probs, draft_tokens, coins) -> tokens``.

    ``library``: ``path:symbol``. ``bits``: its coins are multiples of 2^-53. Raises
    ``UsageError`` for a file or symbol that is not there, ``SimverifyError`` for a file that
    does not load; of a call, ``CallBroken`` where it is no function of its arguments, and
    ``InvalidTokens`` for what it returns.
    """

    bits = _COIN_BITS
    tolerance = 1e-9
    used = None

    def __init__(self, library: str, *, seconds: float = LIBRARY_CALL_SECONDS) -> None:
        self._function = _load_symbol(library)
        self.seconds = seconds
        self._again = DeterminismCheck(
            self._ask,
            lambda request, _: self._ask(request, _ALTERNATE_GUARD_VALUES),
            "reads beyond the {coins} coins that it is given, and they change its tokens from "
            "{tokens} to {again}: name --coins, the most that it reads in a call",
        )

    def __call__(self, target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> Any:
        """Call the function. Raises as the class says."""
        request = CallRequest(target_probs, draft_probs, draft_tokens, coins)
        with uninterruptible_call(self.seconds, lambda: REQUEST_PREFIX + request.text()):
            tokens = self._ask(request)
            self._again.after(request, tokens, len(coins))
        return tokens

    def close(self) -> None:
        """Nothing is kept."""

    def _ask(self, request: CallRequest, beyond: Any = _GUARD_VALUES) -> list[int]:
        gamma, vocab = request.draft_probs.shape
        drafted = request.draft_tokens.astype(np.intc)
        out = np.full(gamma + 1 + _GUARD_LENGTH, _UNWRITTEN_TOKEN, dtype=np.intc)
        coins = np.concatenate([request.coins, beyond])
        given = request.target_probs, request.draft_probs, drafted, coins
        images = [x.tobytes() for x in given]
        count = self._function(
            request.target_probs.ctypes.data,
            request.draft_probs.ctypes.data,
            drafted.ctypes.data,
            gamma,
            vocab,
            coins.ctypes.data,
            out.ctypes.data,
        )
        if [x.tobytes() for x in given] != images:
            raise InvalidTokens("inputs-modified", "changes its arguments in place")
        if count < 0:
            raise InvalidTokens("raises", f"returned {count}, an error code of its own")
        if count > gamma + 1:
            raise InvalidTokens("too-many", f"returned {count}, gamma + 1 = {gamma + 1}")
        if (out[gamma + 1 :] != _UNWRITTEN_TOKEN).any():
            raise InvalidTokens(
                "too-many", f"writes beyond the gamma + 1 = {gamma + 1} ints of out"
            )
        tokens: list[int] = out[:count].tolist()
        if _UNWRITTEN_TOKEN in tokens:
            raise InvalidTokens("out-of-range", f"returned {count} and wrote fewer tokens to out")
        return tokens


def _load_symbol(library: str) -> Any:
    place, colon, symbol = library.rpartition(":")
    if not colon or not place or not symbol:
        raise UsageError(f"--library {library!r}: expected path.so:symbol, a {C_SIGNATURE}")
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"--library {library!r}: no file {place}")
    try:
        with deadline(LIBRARY_LOAD_SECONDS):
            loaded = ctypes.CDLL(str(path.resolve()))
    except DeadlineExpired:
        raise SimverifyError(
            f"--library {library!r} does not load: not done within {LIBRARY_LOAD_SECONDS:g} s"
        ) from None
    except OSError as error:
        raise SimverifyError(f"--library {library!r} does not load: {error}") from None
    try:
        function = loaded[symbol]
    except AttributeError:
        raise UsageError(
            f'--library {library!r}: {place} has no symbol {symbol!r}; in C++ declare it extern "C"'
        ) from None
    pointer = ctypes.c_void_p
    function.argtypes = [pointer, pointer, pointer, ctypes.c_int, ctypes.c_int, pointer, pointer]
    function.restype = ctypes.c_int
    return function

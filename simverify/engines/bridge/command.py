"""``--command``: a program that is started once and answers a line for every call."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from simverify.engines.bridge.process import Ended, Program
from simverify.engines.bridge.protocol import (
    PRECISIONS,
    Request,
    Unreadable,
    read_answer,
    read_hello,
    shown,
)
from simverify.engines.bridge.repeats import ALWAYS, EVERY, Repeats, moved
from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.errors import CallBroken

HELLO_SECONDS = 30.0
"""A program may load much before it says hello."""

CALL_SECONDS = 20.0
"""A call that takes longer hangs."""

_STARTS = 3
"""Times that a program is started again after a call that broke it."""


@dataclass(frozen=True)
class Asked:
    """A call whose line was written. ``again``: one that repeats an earlier call of the stream."""

    request: Request
    number: int


class CommandVerify:
    """The program as ``f(target_probs, draft_probs, draft_tokens, coins) -> tokens``.

    Parameters
    ----------
    command
        The command line, split as a shell would; no shell is started.
    seconds
        Limit of one call.

    Attributes
    ----------
    used : int
        How many coins, from the first on, the last call says that it read.
    bits : int
        Its coins are multiples of 2^-bits.
    tolerance : float
        What the rounding of its precision explains.

    Raises
    ------
    UsageError
        The command cannot be started; or, of a call, the program needs more coins than it has.
    SimverifyError
        It does not say hello.
    CallBroken
        Of a call: it died, hangs, or answered what is no answer. It is started again for the
        next call, a few times.
    """

    def __init__(self, command: str, *, seconds: float = CALL_SECONDS) -> None:
        self.command, self.seconds = command, seconds
        self.used = 0
        self._starts, self._number = 0, 0
        self._again = Repeats(
            lambda request: self._call(request)[0],
            self._with_others,
            "says that it read {coins} coins, and later ones change its tokens from {tokens} to "
            '{again}: "coins" is to be 1 more than the number of the last coin that it reads',
        )
        self._program: Program | None = self._start()

    def __call__(self, target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> Any:
        """Ask one call and wait for it. Raises as the class says."""
        request = Request(target_probs, draft_probs, draft_tokens, coins)
        tokens, used = self._call(request)
        self._again.after(request, tokens, used)
        self.used = used
        return tokens

    def ask(self, target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> Asked:
        """Write the line of a call, and do not wait; :meth:`answer` is due in the same order."""
        return self._sent(Request(target_probs, draft_probs, draft_tokens, coins))

    def answer(self, asked: Asked) -> Any:
        """Return the tokens of a call that was asked. Raises as the class says."""
        with self._in_step():
            tokens, _ = self._received(asked)
        return tokens

    def repeat(self, asked: Asked, tokens: Any) -> None:
        """Ask a call of a stream again, if it is its turn; all answers of it are in by now."""
        if asked.number < ALWAYS or asked.number % EVERY == 0:
            again, _ = self._call(asked.request)
            Repeats.compare(asked.request, tokens, again)

    def close(self) -> None:
        """End the program; it is started again for the next call."""
        program, self._program = self._program, None
        if program is not None:
            program.stop()

    def _with_others(self, request: Request, coins: int) -> list[int]:
        return self._call(replace(request, coins=moved(request.coins, coins, self.bits)))[0]

    def _start(self) -> Program:
        program = Program(self.command)
        try:
            hello = read_hello(program.receive(HELLO_SECONDS), self.command)
        except Ended as ended:
            program.stop()
            raise SimverifyError(f"{self.command} said no hello: {ended}") from None
        except BaseException:
            program.stop()
            raise
        self.bits = hello.bits
        self.tolerance = PRECISIONS[hello.dtype][1]
        return program

    def _running(self) -> Program:
        if self._program is None:
            self._starts += 1
            self._program = self._start()
        return self._program

    def _call(self, request: Request) -> tuple[list[int], int]:
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

    def _sent(self, request: Request, *, alone: bool = False) -> Asked:
        if self._starts > _STARTS:
            raise CallBroken("ends", f"broke {self._starts} times", request.text())
        program = self._running()
        asked = Asked(request, self._number)
        self._number += 1
        if alone and not program.is_silent():
            with suppress(Ended):
                self._broken(asked, "answer", f"wrote {shown(program.receive(0.1))} unasked: one "
                             "line is due for each line, and none else")  # fmt: skip
        program.send(request.line(asked.number), more=not alone)
        return asked

    def _received(self, asked: Asked) -> tuple[list[int], int]:
        program = self._running()
        try:
            answer = read_answer(program.receive(self.seconds), asked.number)
        except Ended as ended:
            self._broken(asked, ended.kind, str(ended))
        except Unreadable as error:
            self._broken(asked, "answer", str(error))
        if program.heard:
            # Where what Python code prints is counted.
            sys.stdout.write(program.heard.decode(errors="replace"))
            program.heard.clear()
        if answer.coins > len(asked.request.coins):
            raise UsageError(
                f"{self.command} needs {answer.coins} coins where it was given "
                f"{len(asked.request.coins)}: name --coins {answer.coins}, or the most that it "
                "reads in a call"
            )
        return answer.tokens, answer.coins

    def _broken(self, asked: Asked, kind: str, message: str) -> Any:
        self.close()
        raise CallBroken(kind, message, asked.request.text())

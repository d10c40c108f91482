"""A server that is asked now and then: each answer is a line of a file before it is looked at."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from simverify.emitted.serving.server import Endpoint, Server
from simverify.emitted.serving.transport import Failure, Refused, Transport, key_of_environment
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

LONGEST_WAIT = 60.0
"""Seconds between tries of a server that does not answer, at most."""

_NEVER = (401, 403)
"""Statuses that no waiting mends."""


@dataclass
class Asker:
    """Asks ``endpoint`` the prompts in turn and writes each answer to ``file``.

    ``up``: whether it answered last, ``why`` not; what it says when it does not is told once, and
    once when it answers again. A prompt whose answer takes too long is left out, in writing: to ask
    again would favour short answers.
    """

    endpoint: Endpoint
    prompts: Sequence[str]
    pair: TransformerPair
    file: Path
    say: Callable[[str], None]
    up: bool = True
    why: str = ""

    def __post_init__(self) -> None:
        self._server: Server | None = None
        # What is tried again in a minute or two, the transport says itself: here nobody would read
        # it, since a server that stays away is told of below.
        self._transport = Transport(key_of_environment(), lambda _: None, self.endpoint.timeout)
        self._down, self._wait = 0.0, 1.0

    def once(self, number: int) -> bool:
        """Ask request ``number``; whether there is an answer, or that there will be none."""
        prompt = self.prompts[number % len(self.prompts)]
        try:
            if self._server is None:
                self._server = Server(self.endpoint, self.pair, self._transport)
            value = self._server.complete(number, prompt)
        except Refused as refused:
            if refused.code in _NEVER:
                raise UsageError(str(refused)) from None
            self._failed(str(refused))
            return False
        except Failure as failure:
            if isinstance(failure.__context__, TimeoutError):
                self._failed(f"{failure}; this request is left out")
                self._write({"prompt": prompt, "unanswered": str(failure)})
                return True
            self._failed(str(failure))
            return False
        if not self.up:
            self.up, self._wait = True, 1.0
            away = time.monotonic() - self._down
            self.say(f"{self.endpoint.url} answers again, after {away:,.0f} s")
        self._write(value)
        return True

    def leave(self) -> None:
        """Try nothing again from here on."""
        self._transport.leave()

    @property
    def wait(self) -> float:
        """Seconds until a server that does not answer is asked again; longer each time."""
        self._wait = min(2.0 * self._wait, LONGEST_WAIT)
        return self._wait

    def _failed(self, why: str) -> None:
        self.why = why
        if self.up:
            self.up, self._down = False, time.monotonic()
            self.say(f"{why}; nothing is lost, and it is asked again and again")

    def _write(self, value: object) -> None:
        try:
            with self.file.open("ab") as file:
                file.write(json.dumps(value).encode() + b"\n")
        except OSError as error:
            raise UsageError(f"{self.file} cannot be written: {error.strerror}") from None


def mend_last_line(file: Path) -> None:
    """Take a last line away that was being written when a watch was killed: it is asked anew.

    A file that is not there is made.
    """
    try:
        file.touch()
        content = file.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with file.open("r+b") as opened:
                opened.truncate(whole)
    except OSError as error:
        raise UsageError(f"{file} cannot be used: {error.strerror}") from None

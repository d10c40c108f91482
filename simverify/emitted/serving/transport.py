"""Calls to a server: its errors on a line, those worth another try, and the key to it."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from threading import Event, Lock
from typing import Any

from simverify.errors import UsageError

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try, or more where the server asks for it."""

_KEYS = ("SIMVERIFY_API_KEY", "OPENAI_API_KEY")
_BUSY = (429, 503)
_PATIENCE = 120.0

SECONDS = 300.0
"""How long an answer may take where nobody says."""


class Failure(Exception):
    """A server gives no answer, for good."""


class Refused(Failure):
    """The server answered with an error: its status and its words."""

    def __init__(self, address: str, code: int, words: str, wait: float = 0.0) -> None:
        super().__init__(f"{address} answers {code}: {words}")
        self.code, self.wait = code, wait


class _Dropped(Failure):
    """No connection, or one that broke: nothing was answered."""


@dataclass(frozen=True)
class Key:
    """What a server wants to see before it answers, and the variable that it stands in."""

    variable: str
    value: str = field(repr=False)


def key_of_environment() -> Key | None:
    """Return the key of SIMVERIFY_API_KEY, then of OPENAI_API_KEY; None where it is empty."""
    for variable in _KEYS:
        value = os.environ.get(variable)
        if value is None:
            continue
        value = value.strip()
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise UsageError(f"{variable} holds what no header can carry: expected printable ASCII")
        return Key(variable, value) if value else None
    return None


class Transport:
    """Calls, tried again where that cannot favour one answer over another.

    A server that is busy, or a connection that breaks, says nothing of what would have been
    drawn. An answer that takes more than ``seconds`` may be a long one, so that is not tried again.
    """

    def __init__(
        self, key: Key | None, say: Callable[[str], None], seconds: float = SECONDS
    ) -> None:
        self._key, self._say, self._seconds = key, say, seconds
        self._reached, self._left = False, Event()
        self._told: dict[float, float] = {}
        self._telling = Lock()
        self._opener = urllib.request.build_opener(_Straight)

    @property
    def reached(self) -> bool:
        """Whether the server has answered anything."""
        return self._reached

    def leave(self) -> None:
        """Try nothing again from here on."""
        self._left.set()

    def call(self, address: str, body: dict[str, Any] | None) -> Any:
        """Return the JSON of an answer; ``Failure`` if there is none."""
        for wait in WAITS:
            try:
                return self._once(address, body)
            except Refused as refused:
                wait = max(wait, refused.wait)
                if refused.code not in _BUSY or wait > _PATIENCE:
                    raise
                failure: Failure = refused
            except _Dropped as dropped:
                if not self._reached:
                    raise
                failure = dropped
            self._tell_once(failure, wait)
            if self._left.wait(wait):
                raise failure
        return self._once(address, body)

    def _tell_once(self, failure: Failure, wait: float) -> None:
        """Say what is tried again; not once more for each request that waits as long meanwhile."""
        with self._telling:
            now = time.monotonic()
            if now >= self._told.get(wait, 0.0):
                self._told[wait] = now + wait
                self._say(f"{failure}; once more in {wait:.3g} s")

    def _once(self, address: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.value}"
        request = urllib.request.Request(address, data, headers)
        try:
            with self._opener.open(request, timeout=self._seconds) as answer:
                self._reached = True
                content = answer.read()
        except urllib.error.HTTPError as error:
            self._reached = True
            with error:
                raise self._refusal(address, error) from None
        except urllib.error.URLError as error:
            raise _Dropped(f"{address} cannot be reached: {error.reason}") from None
        except TimeoutError:
            raise Failure(
                f"{address} gave no answer in {self._seconds:g} s; to ask it again would favour "
                f"short answers: begin anew with a longer --timeout or a smaller --max-tokens"
            ) from None
        except (OSError, HTTPException) as error:
            raise _Dropped(f"{address} breaks off: {error or type(error).__name__}") from None
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            start = self._shown(content)[:60]
            raise Failure(f"{address} answers no JSON, but {start!r}: is it right?") from None
        if isinstance(value, dict) and "choices" not in value and "data" not in value:
            said = value.get("error")
            if said or value.get("object") == "error":
                code = (said if isinstance(said, dict) else value).get("code")
                words = self._words(content)
                raise Refused(address, code if type(code) is int else 200, words)
        return value

    def _refusal(self, address: str, error: urllib.error.HTTPError) -> Refused:
        try:
            words = self._words(error.read(100_000))
        except (OSError, HTTPException):
            words = ""
        words = words or str(error.reason)
        if error.code in (401, 403):
            words += (
                f"; no key was sent: set {_KEYS[0]}" if self._key is None
                else f"; it had the key of {self._key.variable}: set {_KEYS[0]} to another"
            )  # fmt: skip
        if error.code in (301, 302, 303, 307, 308):
            words += f"; name the address that it names, {error.headers.get('Location')}"
        wait = _retry_after(error.headers.get("Retry-After"))
        if wait > _PATIENCE:
            words += f"; come back in {wait:.0f} s"
        return Refused(address, error.code, words, wait)

    def _words(self, content: bytes) -> str:
        """What a server says of its error, on a line."""
        text = self._shown(content)
        try:
            value = json.loads(text)
            error = value.get("error") or value
            said = error if isinstance(error, str) else error.get("message") or error.get("detail")
        except (ValueError, RecursionError, AttributeError):
            said = None
        return " ".join((said if isinstance(said, str) else text).split())[:200]

    def _shown(self, content: bytes) -> str:
        """Text of an answer, without the key: some servers say which one they refuse."""
        text = content.decode(errors="replace")
        return text if self._key is None else text.replace(self._key.value, "***")


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: a key is for the server that was named."""

    def redirect_request(self, *_: object) -> None:
        return None


def _retry_after(value: str | None) -> float:
    """Seconds that a server asks to wait for, from a number or a date; 0 if it does not say."""
    if value is None:
        return 0.0
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0

"""Calls to a server: retries, errors in one line, the API key, and many calls at a time."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from simverify.errors import UsageError

REPORT_SECONDS = 10.0  # between progress lines
DEFAULT_TIMEOUT = 300.0  # seconds that an answer may take by default


class ProgressThrottle:
    """Reports lines: each that it is called with, and one of ``now_and_then`` in a while."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last, self._line = say, time.monotonic(), "no answer yet"

    def __call__(self, line: str) -> None:
        """Report ``line``."""
        self._say(line)

    def now_and_then(self, line: str) -> None:
        """Report ``line`` if the last one was ``REPORT_SECONDS`` ago."""
        self._line = line
        if time.monotonic() - self._last >= REPORT_SECONDS:
            self._last = time.monotonic()
            self._say(line)

    def waiting(self) -> None:
        """Report the last line again."""
        self.now_and_then(self._line)


RETRY_WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try; more if the server asks for it."""

_KEY_VARIABLES = ("SIMVERIFY_API_KEY", "OPENAI_API_KEY")
_BUSY_STATUSES = (429, 503)
_MAX_RETRY_WAIT = 120.0


class ServerFailure(Exception):
    """A server gives no answer, for good."""


class ServerRefusal(ServerFailure):
    """The server answered with an error: its status and its words."""

    def __init__(self, address: str, code: int, words: str, wait: float = 0.0) -> None:
        super().__init__(f"{address} answers {code}: {words}")
        self.code, self.wait = code, wait


class _ConnectionLost(ServerFailure):
    """No connection, or one that broke: nothing was answered."""


@dataclass(frozen=True)
class ApiKey:
    """The key that a server asks for, and the variable that holds it."""

    variable: str
    value: str = field(repr=False)


def api_key_from_environment() -> ApiKey | None:
    """Return the key of SIMVERIFY_API_KEY, then of OPENAI_API_KEY; None where it is empty."""
    for variable in _KEY_VARIABLES:
        value = os.environ.get(variable)
        if value is None:
            continue
        value = value.strip()
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise UsageError(f"{variable} holds what no header can carry: expected printable ASCII")
        return ApiKey(variable, value) if value else None
    return None


class Transport:
    """Calls, tried again where that cannot favour one answer over another.

    A busy server or a broken connection says nothing about what would have been drawn. An answer
    that takes more than ``seconds`` may be a long one: it is not asked for again.
    """

    def __init__(
        self, key: ApiKey | None, say: Callable[[str], None], seconds: float = DEFAULT_TIMEOUT
    ) -> None:
        self._key, self._say, self._seconds = key, say, seconds
        self.reached, self._left = False, Event()  # reached: the server has answered anything
        self._announced: dict[float, float] = {}
        self._lock = Lock()
        self._opener = urllib.request.build_opener(_NoRedirects)

    def leave(self) -> None:
        """Try nothing again from now on."""
        self._left.set()

    def call(self, address: str, body: dict[str, Any] | None) -> Any:
        """Return the JSON of an answer; ``ServerFailure`` if there is none."""
        for wait in RETRY_WAITS:
            try:
                return self._once(address, body)
            except ServerRefusal as refused:
                wait = max(wait, refused.wait)
                if refused.code not in _BUSY_STATUSES or wait > _MAX_RETRY_WAIT:
                    raise
                failure: ServerFailure = refused
            except _ConnectionLost as dropped:
                if not self.reached:
                    raise
                failure = dropped
            with self._lock:  # once for all requests that wait as long meanwhile
                now = time.monotonic()
                if now >= self._announced.get(wait, 0.0):
                    self._announced[wait] = now + wait
                    self._say(f"{failure}; once more in {wait:.3g} s")
            if self._left.wait(wait):
                raise failure
        return self._once(address, body)

    def _once(self, address: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.value}"
        request = urllib.request.Request(address, data, headers)
        try:
            with self._opener.open(request, timeout=self._seconds) as answer:
                self.reached = True
                content = answer.read()
        except urllib.error.HTTPError as error:
            self.reached = True
            with error:
                raise self._refusal(address, error) from None
        except urllib.error.URLError as error:
            raise _ConnectionLost(f"{address} cannot be reached: {error.reason}") from None
        except TimeoutError:
            raise ServerFailure(
                f"{address} gave no answer in {self._seconds:g} s; to ask it again would favour "
                f"short answers: start again with a longer --timeout or a smaller --max-tokens"
            ) from None
        except (OSError, HTTPException) as error:
            raise _ConnectionLost(
                f"{address} breaks off: {error or type(error).__name__}"
            ) from None
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            start = self._shown(content)[:60]
            raise ServerFailure(
                f"{address} answers {start!r}, which is no JSON: is it the right address?"
            ) from None
        if isinstance(value, dict) and "choices" not in value and "data" not in value:
            problem = value.get("error")
            if problem or value.get("object") == "error":
                code = (problem if isinstance(problem, dict) else value).get("code")
                words = self._words(content)
                raise ServerRefusal(address, code if type(code) is int else 200, words)
        return value

    def _refusal(self, address: str, error: urllib.error.HTTPError) -> ServerRefusal:
        try:
            words = self._words(error.read(100_000))
        except (OSError, HTTPException):
            words = ""
        words = words or str(error.reason)
        if error.code in (401, 403):
            words += (
                f"; no key was sent: set {_KEY_VARIABLES[0]}"
                if self._key is None
                else f"; it had the key of {self._key.variable}: set {_KEY_VARIABLES[0]} to another"
            )
        if error.code in (301, 302, 303, 307, 308):
            words += f"; use the address that it names, {error.headers.get('Location')}"
        wait = _retry_after_seconds(error.headers.get("Retry-After"))
        if wait > _MAX_RETRY_WAIT:
            words += f"; come back in {wait:.0f} s"
        return ServerRefusal(address, error.code, words, wait)

    def _words(self, content: bytes) -> str:
        """Return a server's words for its error, on one line."""
        text = self._shown(content)
        try:
            value = json.loads(text)
            error = value.get("error") or value
            message = (
                error if isinstance(error, str) else error.get("message") or error.get("detail")
            )
        except (ValueError, RecursionError, AttributeError):
            message = None
        return " ".join((message if isinstance(message, str) else text).split())[:200]

    def _shown(self, content: bytes) -> str:
        """Return the text of an answer without the key, which some servers repeat."""
        text = content.decode(errors="replace")
        return text if self._key is None else text.replace(self._key.value, "***")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirection: the key is for the named server alone."""

    def redirect_request(self, *_: object) -> None:
        return None


def _retry_after_seconds(value: str | None) -> float:
    """Return the seconds that a server asks to wait, given as a number or a date; 0 for none."""
    with suppress(ValueError):
        return max(float(value or 0.0), 0.0)
    with suppress(ValueError, TypeError, OverflowError):
        return max(parsedate_to_datetime(value or "").timestamp() - time.time(), 0.0)
    return 0.0


# Many calls at a time, without a barrier: as one ends the next begins.


DEFAULT_CONCURRENCY = 8
"""Requests in flight: requests that share a random stream must meet to show it."""

MAX_CONCURRENCY = 1024

T = TypeVar("T")


def check_concurrency(concurrency: int | None) -> int:
    """Return how many requests are in flight; ``UsageError`` for none, or too many."""
    if concurrency is not None and not 1 <= concurrency <= MAX_CONCURRENCY:
        raise UsageError(f"concurrency is {concurrency}: expected 1 to {MAX_CONCURRENCY:,}")
    return DEFAULT_CONCURRENCY if concurrency is None else concurrency


def run_in_order(
    work: Callable[[int], T],
    numbers: Iterable[int],
    width: int,
    waiting: Callable[[], None] = lambda: None,
    *,
    more: Callable[[int], bool] = lambda _: True,
    early: Callable[[int, T], None] = lambda _number, _value: None,
) -> Generator[tuple[int, T], None, None]:
    """Do ``work`` on ``width`` numbers at a time; yield each with its result, in their order.

    ``more`` gets the number of calls in flight and says whether to begin another; if it says no and
    none is in flight, that is the end. A result that comes before its turn, or after the listener
    left, goes to ``early`` at once. An error is raised in its turn; once it is known no work is
    begun. Nobody waits for the threads: a listener that stops or is interrupted leaves at once.
    ``waiting`` is called from time to time while nothing comes.
    """
    todo, results = iter(numbers), SimpleQueue[tuple[int, T | None, BaseException | None]]()
    order: list[int] = []
    ready: dict[int, tuple[T | None, BaseException | None]] = {}
    under_way, failed, ended = 0, False, False

    def do(number: int) -> None:
        try:
            results.put((number, work(number), None))
        except BaseException as error:
            results.put((number, None, error))

    try:
        while True:
            # Before more is begun, so that whoever listens knows all that has come.
            if order and order[0] in ready:
                value, error = ready.pop(order[0])
                if error is not None:
                    raise error
                yield order.pop(0), value  # type: ignore[misc]
            while not ended and not failed and under_way < width and more(under_way):
                number = next(todo, None)
                if number is None:
                    ended = True
                    break
                order.append(number)
                under_way += 1
                Thread(target=do, args=(number,), daemon=True).start()
            if order and order[0] in ready:
                continue
            if not under_way:
                if ended or failed or not more(0):
                    return
                continue
            try:
                number, value, error = results.get(timeout=REPORT_SECONDS)
            except Empty:
                waiting()
                continue
            under_way -= 1
            failed = failed or error is not None
            ready[number] = (value, error)
            if number != order[0]:
                if error is None:
                    early(number, value)  # type: ignore[arg-type]
                waiting()  # for the first of them, though others come
    finally:
        # Those that came before their turn have gone to ``early`` already.
        while not results.empty():
            number, value, error = results.get()
            if error is None:
                early(number, value)  # type: ignore[arg-type]
        if order and order[0] in ready and ready[order[0]][1] is None:
            early(order[0], ready[order[0]][0])  # type: ignore[arg-type]

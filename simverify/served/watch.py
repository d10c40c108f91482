"""A watch: it reads or asks, bets, saves and reports, until an alarm, an interrupt or the end."""

import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import UNSET

from simverify import results as doc
from simverify.arrays import Floats
from simverify.battery.battery import start_meta
from simverify.errors import UsageError
from simverify.models.distribution import sampling_fields
from simverify.models.transformer import TransformerPair
from simverify.served.client import (
    ServerFailure,
    ServerRefusal,
    Transport,
    api_key_from_environment,
)
from simverify.served.judge import prompt_mismatch_note
from simverify.served.monitor import POWER, LogTail, MonitorEvidence, WatchSettings, WatchState
from simverify.served.requests import Request, check_request, expand_choices, file_errors
from simverify.served.rescore import MAX_BATCH, ScoredRequest, dtype_name, rescore
from simverify.served.server import Endpoint, Server

# A server that is asked at intervals: each answer becomes a line of a file first.


MAX_WAIT = 60.0  # seconds between tries of a server that does not answer, at most
_FATAL_STATUSES = (401, 403)  # waiting does not help


@dataclass
class PromptClient:
    """Asks ``endpoint`` the prompts in turn and writes each answer to ``file``.

    ``up``: whether it answered last, ``why`` not. ``say`` reports once that it does not answer, and
    once that it does again. A prompt whose answer takes too long is left out, in writing: to ask
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
        # Retries within a minute or two are not reported: below it is said that a server is away.
        key, seconds = api_key_from_environment(), self.endpoint.timeout
        self._transport = Transport(key, lambda _: None, seconds)
        self._down, self._wait = 0.0, 1.0

    def once(self, number: int) -> bool:
        """Ask request ``number``; return whether it is done, answered or left out."""
        prompt = self.prompts[number % len(self.prompts)]
        try:
            if self._server is None:
                self._server = Server(self.endpoint, self.pair, self._transport)
            value = self._server.complete(number, prompt)
        except ServerRefusal as refused:
            if refused.code in _FATAL_STATUSES:
                raise UsageError(str(refused)) from None
            self._failed(str(refused))
            return False
        except ServerFailure as failure:
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
        """Try nothing again from now on."""
        self._transport.leave()

    @property
    def wait(self) -> float:
        """Seconds until a server that does not answer is asked again, longer each time."""
        self._wait = min(2.0 * self._wait, MAX_WAIT)
        return self._wait

    def _failed(self, why: str) -> None:
        self.why = why
        if self.up:
            self.up, self._down = False, time.monotonic()
            self.say(f"{why}; nothing is lost: it is asked again until it answers")

    def _write(self, value: object) -> None:
        with file_errors(f"{self.file} cannot be written"), self.file.open("ab") as file:
            file.write(json.dumps(value).encode() + b"\n")


def drop_partial_line(file: Path) -> None:
    """Remove a last line that was half written when a watch was killed; make a missing file."""
    with file_errors(f"{file} cannot be used"):
        file.touch()
        content = file.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(file, whole)


# Metrics for Prometheus, on a local port.
#
# prometheus_client serves them: it handles the text format, its escapes and what scrapers
# negotiate. Values come from the state, so that counters continue where a killed process left them.


METRIC_PREFIX = "simverify_watch"


@dataclass(frozen=True)
class Metric:
    """A number: its ``name`` behind the prefix, and what it is."""

    name: str
    words: str
    value: float
    counter: bool = False


def serve_metrics(
    address: str, port: int, read: Callable[[], list[Metric]], labels: dict[str, str]
) -> Callable[[], None]:
    """Serve what ``read`` returns, with these labels; return a function that ends it.

    ``UsageError`` if prometheus_client is missing, or the port cannot be used.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("--metrics needs prometheus_client: pip install 'simverify[metrics]'")
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    lock = Lock()

    class Collector:
        def collect(self) -> Iterator[Any]:
            with lock:
                for one in read():
                    kind = CounterMetricFamily if one.counter else GaugeMetricFamily
                    family = kind(f"{METRIC_PREFIX}_{one.name}", one.words, labels=list(labels))
                    family.add_metric(list(labels.values()), one.value)
                    yield family

    registry = CollectorRegistry()
    registry.register(Collector())
    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"metrics: {address}:{port} cannot be served: {why}") from None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end


def parse_address(given: str) -> tuple[str, int]:
    """Return host and port of PORT or HOST:PORT; by default it serves this machine alone."""
    host, _, port = given.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"metrics is {given!r}: expected PORT or HOST:PORT, such as 9464")
    return host.strip("[]") or "127.0.0.1", int(port)


# What is watched.


@dataclass(frozen=True)
class WatchSubject:
    """What is watched, and how.

    ``log``: the file that is read; ``asker``: what writes it, None for a log of others. ``once``:
    end where the log ends; ``stay``: go on after an alarm. ``every``: seconds between looks or
    requests.
    """

    name: str
    log: Path
    folder: Path
    reproduce: str
    asker: PromptClient | None = None
    once: bool = False
    stay: bool = False
    every: float = 1.0


def state_key(
    pair: TransformerPair, settings: WatchSettings, source: str, proxy: bool
) -> dict[str, Any]:
    """Return what a state belongs to: another target, law, precision or rate is another life."""
    return {
        "source": source,
        "target": pair.target_name,
        "draft": pair.draft_name if proxy else None,
        "vocabulary": pair.vocab_size,
        "dtype": str(pair.target_model.dtype),
        **sampling_fields(pair.sampling),
        "alpha": settings.alpha,
        "seed": settings.seed,
        **({"weights": settings.weights} if settings.weights else {}),
    }


# The watch itself.


LINES_PER_SAVE = 64  # lines that are read before the state is written again
_EVIDENCE_FIELDS = (
    *("requests", "tokens", "near", "unsupported", "balls"),
    *("log_evalue", "highest", "highest_at", "alarm", "alarm_at"),
)
"""Fields of the document that are those of the evidence."""

_MAX_REPORTED_LINES = 3  # unreadable lines that are reported one by one; then every tenfold number


class Watch:
    """A watch over its life; :meth:`run` returns the document when it ends."""

    def __init__(
        self,
        watched: WatchSubject,
        pair: TransformerPair,
        settings: WatchSettings,
        state: WatchState,
        *,
        proxy: bool,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._watched, self._pair, self._settings = watched, pair, settings
        self._state, self._proxy, self._say, self._sleep = state, proxy, say, sleep
        self._stamp, self._seen = start_meta(), time.time()
        self._alarm_reported = self._answered = False
        self._first = state.place.lines

    def run(self) -> doc.WatchRun:
        """Watch until there is an alarm, or with ``once`` until the log ends."""
        watched, state = self._watched, self._state
        if state.canary is not None:
            self._say(f"state: {state.canary.tokens:,} tokens are counted in {watched.folder}")
        if watched.asker is not None:
            drop_partial_line(watched.log)
        tail = LogTail(watched.log, state.place, self._say)
        try:
            while True:
                read = self._read(tail)
                if self._alarmed() and not watched.stay:
                    return self.document()
                if read:
                    continue
                # With ``once`` it ends where the log ends, or each prompt was asked.
                asker, lines = watched.asker, state.place.lines
                asked = asker is None or lines >= self._first + len(asker.prompts)
                if watched.once and asked:
                    return self.document()
                self._wait()
        finally:
            tail.close()

    def _read(self, tail: LogTail) -> bool:
        requests, read = [], False
        for line in tail.lines(LINES_PER_SAVE):
            read = True
            requests += self._requests(line)
        if not read:
            return False
        self._seen = time.time()
        if requests:
            self._judge(requests)
        self._state.save()
        return True

    def _requests(self, line: bytes) -> list[Request]:
        """Return the requests in a line; what cannot be judged is reported and left out."""
        if not line.strip():
            return []
        where = f"{self._watched.log}, line {self._state.place.lines:,}"
        try:
            value = json.loads(line)
            if isinstance(value, dict) and "unanswered" in value:
                raise UsageError(f"{where} was not answered")
            each = list(expand_choices(value, where, self._pair))
        except UsageError as error:
            self._unread(str(error))
            return []
        except (ValueError, RecursionError):
            self._unread(f"{where} is no JSON")
            return []
        return [request for at, value in each if (request := self._request(value, at)) is not None]

    def _request(self, value: Any, where: str) -> Request | None:
        try:
            request = check_request(value, where, self._pair)
        except UsageError as error:
            self._unread(str(error))
            return None
        if request.seed is not None and request.judged_by(self._pair).temperature > 0.0:
            self._unread(
                f"{where} was asked with seed {request.seed}: requests with one seed share their "
                f"random numbers, and a watch does not keep which seeds there were"
            )
            return None
        if request.differs == "untold":
            self._unread(f"{where}: {prompt_mismatch_note([request], 1)}")
            return None
        if request.from_text:
            self._state.text_alone += 1
            if self._watched.asker is not None and self._state.canary is None:
                raise UsageError(
                    f"{self._watched.name} gives no token ids, and texts do not tell their tokens: "
                    f"a watch needs a server that does, such as vLLM, SGLang or llama.cpp"
                )
            self._unread(f"{where} has no token ids: log them beside the text")
            return None
        return request

    def _unread(self, why: str) -> None:
        self._state.unread += 1
        n = self._state.unread
        if n <= _MAX_REPORTED_LINES or (n >= 10 and str(n).strip("0") == "1"):
            more = "" if n <= _MAX_REPORTED_LINES else f"; {n:,} lines so far"
            self._say(f"not judged: {why}{more}")

    def _judge(self, requests: Sequence[Request]) -> None:
        scored = list(rescore(requests, self._pair, self._proxy))
        canary = self._state.canary
        if canary is None:
            canary = self._state.canary = MonitorEvidence(self._settings, self._proxy)
        before = max(canary.balls.values())
        measured = canary.moved.measure(scored, self._pair, self._proxy)
        now = max(canary.balls.values())
        if measured and now > max(1e-5, 1.25 * before):  # more than float32's, and than reported
            tokens = self._settings.delay(0, self._proxy, canary.balls)
            self._say(
                f"rounding moves the rows by {now:.2g}: a TV of {self._settings.detect:g} is told "
                f"within {tokens:,.0f} tokens"
            )
        formats = self._formats(canary, scored)
        for i, one in enumerate(scored):
            canary.add(one, formats.get(i))

    def _formats(
        self, canary: MonitorEvidence, scored: Sequence[ScoredRequest]
    ) -> dict[int, Floats]:
        """Return, by their places, the factors of the requests that formats are bet on."""
        bets, factors = canary.formats, dict[int, Floats]()
        if bets is None:
            return factors
        chosen = [i for i in range(len(scored)) if bets.wanted(canary.requests + i)]
        for start in range(0, len(chosen), MAX_BATCH):
            part = chosen[start : start + MAX_BATCH]
            each = bets.factors([scored[i] for i in part], self._pair)
            factors.update(zip(part, each, strict=True))
        return factors

    def _alarmed(self) -> bool:
        canary = self._state.canary
        if canary is None or canary.alarm is None:
            return False
        if not self._alarm_reported:
            self._alarm_reported = True
            self._say(f"ALARM at token {canary.alarm_at:,}: {canary.alarm}")
        return True

    def _wait(self) -> None:
        asker = self._watched.asker
        if asker is None or self._answered:
            self._sleep(self._watched.every)
        if asker is None:
            return
        self._answered = asker.once(self._state.place.lines)
        if not self._answered:
            if self._watched.once:
                raise UsageError(f"{asker.why}; {self.fate}")
            self._sleep(asker.wait)

    @property
    def fate(self) -> str:
        """What became of the tokens where the watch ends."""
        n = 0 if self._state.canary is None else self._state.canary.tokens
        where = self._watched.folder
        return f"{n:,} tokens are counted in {where}: the same command goes on from there"

    def metrics(self) -> list[Metric]:
        """Return the numbers of now."""
        settings, state, asker = self._settings, self._state, self._watched.asker
        canary = state.canary or MonitorEvidence(settings, self._proxy)
        balls = {} if state.canary is None else canary.balls
        delay = settings.delay(canary.tokens, self._proxy, balls)
        promise = (
            f"Tokens within which a TV of {settings.detect:g} from now on is told, with "
            f"probability {POWER:g}."
        )
        up = asker.up if asker else self._watched.log.exists()
        restarts = "Times that the log was rotated, cut or replaced."
        unsupported = "Tokens that truncation cuts off, beyond the margin."
        hurdle = "The value at which the alarm is raised, ln(1 / alpha)."
        last_read = "When the last line was read, seconds since 1970."
        return [
            Metric("alarm", "1 from an alarm on.", float(bool(canary.alarm))),
            Metric("log_evalue", "Logarithm of the e-value now.", canary.log_evalue),
            Metric("log_evalue_highest", "The largest there ever was.", canary.highest),
            Metric("log_evalue_alarm", hurdle, settings.hurdle),
            Metric("delay_tokens", promise, delay),
            Metric("tokens", "Tokens judged.", canary.tokens, True),
            Metric("requests", "Requests judged.", canary.requests, True),
            Metric("unsupported", unsupported, canary.unsupported, True),
            Metric("unread", "Lines that could not be judged.", state.unread, True),
            Metric("log_restarts", restarts, state.place.restarts, True),
            Metric("server_up", "Whether the server, or the log, is there.", float(up)),
            Metric("last_read_seconds", last_read, self._seen),
        ]

    def document(self) -> doc.WatchRun:
        """Return what was seen in all this life."""
        watched, state, settings = self._watched, self._state, self._settings
        canary = state.canary or MonitorEvidence(settings, self._proxy)
        n = canary.tokens
        afters = sorted({0, n, 1_000_000})
        delays = [settings.delay(after, self._proxy, canary.balls) for after in afters]
        verdict: doc.Verdict = "PASS" if n >= delays[0] else "INCONCLUSIVE"
        if canary.alarm:
            verdict = "FAIL"
        promise = f"that deviation is told within {delays[0]:,.0f}"
        why = f"{n:,} tokens are there: {promise}"
        if delays[0] == float("inf"):
            why = f"{n:,} tokens are there, and no number tells that deviation: rounding hides it"
        if watched.asker is None and not watched.log.exists():
            why = f"{watched.log} is not there: {why}"
        return doc.WatchRun(
            schema_version=doc.SCHEMA_VERSION,
            source=watched.name,
            endpoint=watched.asker is not None,
            target=self._pair.target_name,
            draft=self._pair.draft_name if self._proxy else None,
            state=str(watched.folder),
            device=str(self._pair.target_model.device),
            dtype=dtype_name(self._pair),
            **sampling_fields(self._pair.sampling),
            **{name: getattr(canary, name) for name in _EVIDENCE_FIELDS},
            unread=state.unread,
            text_alone=state.text_alone,
            restarts=state.place.restarts,
            alpha=settings.alpha,
            detect=settings.detect,
            power=POWER,
            delays=tuple(
                doc.WatchDelay(after=after, tokens=None if x == float("inf") else x)
                for after, x in zip(afters, delays, strict=True)
            ),
            weights=settings.weights or UNSET,
            hurdle=settings.hurdle,
            seed=settings.seed,
            verdict=verdict,
            findings=(canary.alarm,) if canary.alarm else (),
            inconclusive=None if verdict != "INCONCLUSIVE" else why,
            notes=tuple(_watch_notes(state)),
            reproduce=watched.reproduce,
            meta=self._stamp(),
        )


def _watch_notes(state: WatchState) -> Iterator[str]:
    if state.unread:
        alone = f", {state.text_alone:,} of them without token ids" if state.text_alone else ""
        yield (
            f"{state.unread:,} lines could not be judged{alone}: if they were left out for what "
            f"they say, the alarm rate does not hold"
        )
    if state.place.restarts:
        yield (
            f"the log was rotated, cut or replaced {state.place.restarts:,} times: lines that were "
            f"lost in between were not judged"
        )

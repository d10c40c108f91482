"""A watch: reads or asks, bets, keeps, tells; until an alarm, an interrupt, or the log's end."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simverify import results as doc
from simverify.arrays import Floats
from simverify.battery.judgement import stamped
from simverify.emitted.judging.notes import other_prompt
from simverify.emitted.reading.requests import Request, request_iv
from simverify.emitted.reading.responses import expanded
from simverify.emitted.rescoring import BATCH, Scored, rescore
from simverify.emitted.watching.asking import mend_last_line
from simverify.emitted.watching.canary import Canary, WatchSettings, order_names
from simverify.emitted.watching.metrics import Metric
from simverify.emitted.watching.state import State
from simverify.emitted.watching.tail import Tail
from simverify.emitted.watching.telling import Watched, document_of, metrics_of
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

TOGETHER = 64
"""Lines that are read before the state is written again."""

_TOLD = 3
"""Lines that cannot be judged which are told one by one; then every tenfold number."""


class Watch:
    """A watch over its life; :meth:`run` returns the document when it ends."""

    def __init__(
        self, watched: Watched, pair: TransformerPair, settings: WatchSettings, state: State,
        *, proxy: bool, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._watched, self._pair, self._settings = watched, pair, settings
        self._state, self._proxy, self._say, self._sleep = state, proxy, say, sleep
        self._stamp, self._seen = stamped(), time.time()
        self._told_alarm = self._answered = False
        self._first = state.place.lines

    def run(self) -> doc.WatchRun:
        """Watch until there is an alarm, or for ``once`` the log has ended."""
        watched, state = self._watched, self._state
        if state.canary is not None:
            self._say(f"state: {state.canary.tokens:,} tokens are counted in {watched.folder}")
        if watched.asker is not None:
            mend_last_line(watched.log)
        tail = Tail(watched.log, state.place, self._say)
        try:
            while True:
                read = self._read(tail)
                if self._alarmed() and not watched.stay:
                    return self.document()
                if read:
                    continue
                if self._ended():
                    return self.document()
                self._wait()
        finally:
            tail.close()

    def _read(self, tail: Tail) -> bool:
        """Judge the lines that are new, and keep what they come to; whether there were any."""
        requests, read = [], False
        for line in tail.lines(TOGETHER):
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
        """Return what a line holds, one request or the choices of an answer as it came.

        What cannot be judged is said, and left out.
        """
        if not line.strip():
            return []
        where = f"{self._watched.log}, line {self._state.place.lines:,}"
        try:
            value = json.loads(line)
            if isinstance(value, dict) and "unanswered" in value:
                raise UsageError(f"{where} was not answered")
            each = list(expanded(value, where, self._pair))
        except UsageError as error:
            self._unread(str(error))
            return []
        except (ValueError, RecursionError):
            self._unread(f"{where} is no JSON")
            return []
        return [own for at, value in each if (own := self._request(value, at)) is not None]

    def _request(self, value: Any, where: str) -> Request | None:
        """Return the request of an object, None for one that cannot be judged, which is said."""
        try:
            request = request_iv(value, where, self._pair)
        except UsageError as error:
            self._unread(str(error))
            return None
        if request.differs == "untold":
            self._unread(f"{where}: {other_prompt([request], 1)}")
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
        if n <= _TOLD or (n >= 10 and str(n).strip("0") == "1"):
            more = "" if n <= _TOLD else f"; {n:,} lines so far"
            self._say(f"not judged: {why}{more}")

    def _judge(self, requests: Sequence[Request]) -> None:
        scored = list(rescore(requests, self._pair, self._proxy))
        canary = self._state.canary
        if canary is None:
            canary = self._state.canary = Canary(self._settings, self._proxy)
        before = max(canary.balls.values())
        names = order_names(self._proxy)
        if canary.moved.measure(scored, self._pair, names, self._proxy):
            self._say_rounding(before, canary.balls)
        formats = self._formats(canary, scored)
        for i, one in enumerate(scored):
            canary.add(one, formats.get(i))

    def _formats(self, canary: Canary, scored: Sequence[Scored]) -> dict[int, Floats]:
        """Return, by their places, the factors of those requests that formats are bet on."""
        bets, first = canary.formats, canary.requests
        if bets is None:
            return {}
        chosen = [i for i in range(len(scored)) if bets.wanted(first + i)]
        found: dict[int, Floats] = {}
        for start in range(0, len(chosen), BATCH):
            part = chosen[start : start + BATCH]
            found.update(
                zip(part, bets.factors([scored[i] for i in part], self._pair), strict=True)
            )
        return found

    def _say_rounding(self, before: float, balls: Mapping[str, float]) -> None:
        """Say what rounding comes to where it is more than float32's, and more than was said."""
        now = max(balls.values())
        if now > max(1e-5, 1.25 * before):
            tokens = self._settings.delay(0, self._proxy, balls)
            self._say(
                f"rounding moves the rows by {now:.2g}: a TV of {self._settings.detect:g} is told "
                f"within {tokens:,.0f} tokens"
            )

    def _alarmed(self) -> bool:
        canary = self._state.canary
        if canary is None or canary.alarm is None:
            return False
        if not self._told_alarm:
            self._told_alarm = True
            self._say(f"ALARM at token {canary.alarm_at:,}: {canary.alarm}")
        return True

    def _ended(self) -> bool:
        """Whether there is no more to come: the log has ended, or each prompt was asked once."""
        asker = self._watched.asker
        if not self._watched.once:
            return False
        return asker is None or self._state.place.lines >= self._first + len(asker.prompts)

    def _wait(self) -> None:
        """Wait for lines: ask for one, or let some time pass."""
        asker = self._watched.asker
        if asker is None:
            self._sleep(self._watched.every)
            return
        if self._answered:
            self._sleep(self._watched.every)
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
        return metrics_of(self._watched, self._state, self._settings, self._proxy, self._seen)

    def document(self) -> doc.WatchRun:
        """Return what was seen in all this life."""
        return document_of(
            self._watched, self._state, self._settings, self._pair, self._proxy, self._stamp()
        )

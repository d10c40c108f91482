"""One probe's line: how bad, in one sentence, within its time."""

from collections.abc import Callable
from typing import Literal

from simverify.auditing.probes.calls import Outcome
from simverify.results import Probe
from simverify.symbolic.enumeration.engine import LONGER
from simverify.symbolic.errors import CannotEnumerate
from simverify.symbolic.guards.watchdog import Expired, deadline, now

Grade = Literal["ok", "warning", "violation", "not run"]

_ORDER: tuple[Grade, ...] = ("ok", "not run", "warning", "violation")


class Line:
    """Collects what a probe sees; the first of the worst is kept.

    ``took``: seconds of the last call that returned, at first that of an earlier probe.
    """

    def __init__(self, took: float = 0.0) -> None:
        self.outcome: Grade = "ok"
        self.message = ""
        self.calls = 0
        self.took = took
        self.started = now()

    def call(self, run: Callable[[], Outcome]) -> Outcome:
        """Run the code once, counted and timed."""
        self.started = now()
        outcome = run()
        self.calls += 1
        self.took = now() - self.started
        return outcome

    def add(self, outcome: Grade, message: str) -> None:
        """Record something seen."""
        if _ORDER.index(outcome) > _ORDER.index(self.outcome):
            self.outcome, self.message = outcome, message


def probe(name: str, body: Callable[[Line], str], seconds: float, line: Line) -> Probe:
    """Run ``body``, which returns what to say if all is well.

    One call that takes more than half of ``seconds`` when they end is a hang, if the last one
    that returned took a small part of that; many slow ones are judged by those that ended.
    """
    began = now()
    hung = False
    text = ""
    try:
        with deadline(seconds):
            text = body(line)
    except Expired:
        ended = now()
        hung = ended - line.started > max((ended - began) / 2, LONGER * line.took)
        if hung:
            line.add("violation", f"did not return within {seconds / 2:g} s")
        elif line.calls:
            text = f"{text or 'nothing amiss'} in the calls that time allowed"
        else:
            line.add("not run", f"no call ended within {seconds:g} s, as slow as the others are")
    except CannotEnumerate as error:
        line.add("not run", f"cannot be forced: {error}")
    return Probe(name=name, outcome=line.outcome, message=line.message or text, hung=hung)

"""A watch as a report, and the same as text for a terminal."""

import math
from collections.abc import Iterator

from rich.console import Console

from simverify.reports.compare.decoded import law_words
from simverify.reports.served.parts import print_served, served_report
from simverify.reports.view import Case, Cell, Command, Fact, Items, Report, Section, Table
from simverify.reports.words import MOST_ITEMS, first
from simverify.results import WatchRun


def print_watch(run: WatchRun, console: Console) -> None:
    """Print the verdict, what it rests on, and the command that goes on."""
    lines = [_ruling(run), *(f"{fact.name}: {fact.text}" for fact in _facts(run))]
    lines += [f"note: {note}" for note in run.notes]
    again = "a new life takes another --state" if run.alarm else "to go on"
    print_served(run, run.source, lines, console, again)


def watch_report(run: WatchRun) -> Report:
    """Return the report of a watch."""
    name = f"watch {run.source}"
    cases = {
        "PASS": Case(name, "passed"),
        "FAIL": Case(name, "failed", _ruling(run)),
        "INCONCLUSIVE": Case(name, "inconclusive", run.inconclusive or ""),
    }
    sections = [Section("Delays", (_delays(run),))]
    if run.notes:
        sections.append(Section("Notes", (Items(*first(run.notes, MOST_ITEMS)),)))
    sections.append(Section("To go on", (Command(run.reproduce),)))
    return served_report(
        run, "watch", run.source, _ruling(run), _facts(run),
        sections, (cases[run.verdict],), run.seed,
    )  # fmt: skip


def _ruling(run: WatchRun) -> str:
    if run.alarm is not None:
        return f"ALARM at token {run.alarm_at:,}: {run.alarm}."
    if run.verdict == "INCONCLUSIVE":
        return f"No alarm, and too early to say more: {run.inconclusive}."
    return (
        f"No alarm: a deviation of TV {run.detect:g} from the start, across one cut of an order, "
        f"would have been told with probability {run.power:g}."
    )


def _facts(run: WatchRun) -> Iterator[Fact]:
    yield Fact("Seen", f"{run.tokens:,} tokens of {run.requests:,} requests, kept in {run.state}")
    law = law_words(run.temperature, run.top_k, run.top_p)
    yield Fact("Target", f"{run.target}, {run.dtype} on {run.device}, {law}")
    yield Fact(
        "Evidence",
        f"e-value {_power(run.log_evalue)} now, {_power(run.highest)} at most (token "
        f"{run.highest_at:,}); the alarm is at {_power(run.hurdle)}",
    )
    yield Fact(
        "False alarms", f"one with probability {run.alpha:g} at most, ever, by this state's life"
    )
    told = ", ".join(
        f"{'no number of' if delay.tokens is None else f'{delay.tokens:,.0f}'} tokens after "
        f"{delay.after:,}"
        for delay in run.delays
    )
    yield Fact("Delay", f"TV {run.detect:g} is told within, with probability {run.power:g}: {told}")
    if run.weights:
        yield Fact(
            "Weights",
            f"one request in {run.weights:,} is scored with weights in few bits, too; no delay is "
            f"promised for them",
        )
    yield Fact(
        "Ball",
        f"rows are allowed to be off by {max(run.balls.values()):.2g} in an order, on average over "
        f"any stretch",
    )


def _power(log: float) -> str:
    return f"10^{log / math.log(10.0):.1f}"


def _delays(run: WatchRun) -> Table:
    return Table(
        f"Within how many tokens a TV of {run.detect:g} is told, with probability {run.power:g}",
        ("tokens before it", "tokens until the alarm"),
        tuple((_tokens(delay.after), _tokens(delay.tokens)) for delay in run.delays),
        numbers=frozenset({0, 1}),
    )


def _tokens(n: float | None) -> Cell:
    return Cell("none will do") if n is None else Cell(f"{n:,.0f}", float(n))

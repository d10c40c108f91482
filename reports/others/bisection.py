"""A bisection: its words, as text for a terminal and as a report."""

import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from simverify.checks import clean
from simverify.reports.audit.found import count
from simverify.reports.terminal import WIDTH
from simverify.reports.view import (
    MARKS,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import MOST_ITEMS, MOST_ROWS, figure, first, listed, optional
from simverify.results import BisectRun, Visited

_STYLES = {"changed": "bold red", "open": "yellow", "unchanged": "green"}
_MOST_SKIPPED = 8


def print_bisection(run: BisectRun, console: Console) -> None:
    """Print what was audited, in order, and what is known of the first that differs."""
    order = {version: i for i, version in enumerate(run.versions)}
    for one in sorted(run.tried, key=lambda one: order[one.version]):
        for part in _wrapped(visited_words(run, one)):
            console.print(Text(part), soft_wrap=True)
    console.print()
    head, *rest = conclusion(run)
    for n, words in enumerate((head, *rest)):
        for part in _wrapped(words):
            console.print(Text(part, style="" if n else _STYLES[run.outcome]), soft_wrap=True)


def short(run: BisectRun, version: str) -> str:
    """Return a release as it is, and a commit's first letters."""
    return version if run.source == "releases" else version[:10]


def visited_words(run: BisectRun, one: Visited) -> str:
    """Return what came of a version, in a line."""
    said: str = one.verdict or one.state
    if one.max_abs_deviation is not None:
        on = count(one.instances, "instance")
        said += f", largest deviation {one.max_abs_deviation:.1e} on {on}"
    how = {True: "changed", False: "as good", None: "skipped"}[one.changed]
    why = f": {one.reason}" if one.reason else ""
    title = f" ({one.title})" if one.title else ""
    return f"{short(run, one.version)}{title}: {how}; {said}{why}"


def conclusion(run: BisectRun) -> Iterator[str]:
    """Yield what is known of the first version that differs, a fact a line."""
    noun = run.source.removesuffix("s")
    within = len(run.versions) - 2
    if run.first is None or run.last is None:
        what = "law" if run.what == "law" else "verdict"
        yield (
            f"no change: {short(run, run.bad)} of {run.package} has the {what} of "
            f"{short(run, run.good)}, so that there is nothing to look for in between"
        )
        return
    named = short(run, run.first)
    title = next((one.title for one in run.tried if one.version == run.first), "")
    if run.outcome == "changed":
        yield f"{named} is the first {noun} of {run.package} that differs" + (
            f": {title}" if title else ""
        )
    else:
        order = run.versions.index
        between = [short(run, v) for v in run.versions[order(run.last) + 1 : order(run.first)]]
        yield (
            f"{named} of {run.package} differs, and {short(run, run.last)} does not; what lies "
            f"between could not be judged: {listed(between, _MOST_SKIPPED)}"
        )
    yield f"how: {run.how}"
    if run.lines:
        yield f"line: {listed(run.lines, 3, 200)}"
    if run.differences:
        yield f"the law differs on {count(len(run.differences), 'instance')}"
    if within == 0:
        yield f"no {noun} lies between {short(run, run.good)} and {short(run, run.bad)}"
    else:
        yield (
            f"audited {len(run.tried)} of {len(run.versions)}; a change that was undone in between "
            "is not seen"
        )
    if run.skipped and run.outcome == "changed":
        yield f"skipped: {listed([short(run, one.version) for one in run.skipped], _MOST_SKIPPED)}"


def bisect_report(run: BisectRun) -> Report:
    """Return the report of a bisection, which judges no code: what changed may be for the better.

    A server that counts tests is told of a change as a failure.
    """
    head, *rest = conclusion(run)
    outcomes: dict[str, Case] = {
        "changed": Case(f"bisect {run.spec}", "failed", "\n".join((head, *rest))),
        "open": Case(f"bisect {run.spec}", "inconclusive", "\n".join((head, *rest))),
        "unchanged": Case(f"bisect {run.spec}", "passed"),
    }
    return Report(
        command="bisect",
        title=f"{run.spec}, {short(run, run.good)} to {short(run, run.bad)}",
        verdict=None,
        ruling=f"{head[0].upper()}{head[1:]}.",
        facts=(
            Fact("Searched", f"{count(len(run.versions), run.source[:-1])} of {run.package}"),
            Fact("Change", "of the law" if run.what == "law" else "of the verdict"),
        ),
        sections=tuple(_sections(run, rest)),
        cases=(outcomes[run.outcome],),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _sections(run: BisectRun, rest: list[str]) -> Iterator[Section]:
    if rest:
        yield Section("What changed", (Items(*first(rest, MOST_ITEMS)),))
    if run.differences:
        yield Section("The laws", (_differences(run),))
    yield Section("Audited", (_visited(run),))
    yield Section(
        "To reproduce",
        (
            Prose("Every version is audited in a place of its own, with the same seed."),
            Command(run.reproduce),
        ),
    )


def _differences(run: BisectRun) -> Table:
    shown, left_out = first(run.differences, MOST_ROWS)
    return Table(
        "Instances on which the laws differ, the largest difference first",
        ("instance", "deviation before", "after", "TV before", "after", "E[tau] before", "after"),
        tuple(
            (
                Cell(one.instance),
                figure(one.before.max_abs_deviation, 3),
                figure(one.after.max_abs_deviation, 3),
                figure(one.before.tv, 3),
                figure(one.after.tv, 3),
                optional(one.before.expected_accepted, ""),
                optional(one.after.expected_accepted, ""),
            )
            for one in shown
        ),
        numbers=frozenset(range(1, 7)),
        names=frozenset({0}),
        left_out=left_out,
    )


def _visited(run: BisectRun) -> Table:
    order = {version: i for i, version in enumerate(run.versions)}
    shown, left_out = first(sorted(run.tried, key=lambda one: order[one.version]), MOST_ROWS)
    return Table(
        "Versions in their order; the others were not asked",
        ("version", "subject", "verdict", "differs", "deviation", "instances", "why"),
        tuple(
            (
                Cell(one.version),
                Cell(one.title),
                Cell(one.verdict or one.state, mark=MARKS[one.verdict] if one.verdict else "open"),
                Cell({True: "yes", False: "no", None: "skipped"}[one.changed]),
                optional(one.max_abs_deviation, "", 3),
                Cell(f"{one.instances:,}", one.instances),
                Cell(one.reason),
            )
            for one in shown
        ),
        numbers=frozenset({4, 5}),
        names=frozenset({0}),
        left_out=left_out,
    )


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(clean(words, 2000), WIDTH, subsequent_indent="  ")

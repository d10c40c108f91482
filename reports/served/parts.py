"""What reports of served engines share: a run's own fields, and the lines on a terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from simverify.checks import clean
from simverify.reports.terminal import STYLE, print_wrapped
from simverify.reports.view import Case, Fact, Report, Section
from simverify.reports.words import shell
from simverify.results import AgainstRun, MatrixRun, OutputRun, TriageRun, WatchRun

Served = AgainstRun | MatrixRun | OutputRun | TriageRun | WatchRun


def served_report(
    run: Served, command: str, title: str, ruling: str, facts: Iterable[Fact],
    sections: Iterable[Section], cases: Iterable[Case], seed: int,
) -> Report:  # fmt: skip
    """Return the report of a run, which says its verdict, and when and where it was made."""
    return Report(
        command=command,
        title=title,
        verdict=run.verdict,
        ruling=ruling,
        facts=tuple(facts),
        sections=tuple(sections),
        cases=tuple(cases),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=seed,
    )


def print_verdict(run: Served, title: str, console: Console) -> None:
    """Print the first line."""
    console.print(Text(clean(f"{run.verdict} {title}"), style=STYLE[run.verdict]))


def print_served(
    run: Served, title: str, lines: Iterable[str], console: Console,
    again: str = "to reproduce",
) -> None:  # fmt: skip
    """Print the verdict, the lines, and unless it passed the command, which ``again`` leads to."""
    print_verdict(run, title, console)
    print_wrapped(lines, console)
    print_command(run, console, again)


def print_command(run: Served, console: Console, again: str = "to reproduce") -> None:
    """Print the command unless the run passed."""
    if run.verdict != "PASS":
        console.print(Text(f"{again}: {shell(run.reproduce)}"), soft_wrap=True)

"""The words of a table of engines, and the table as text for a terminal."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simverify.checks import clean
from simverify.reports.audit.found import count, place_words
from simverify.reports.audit.lines import briefly, raised_words, source_words
from simverify.reports.terminal import STYLE, WIDTH, line
from simverify.reports.words import certified, listed
from simverify.results import EngineRow, TableRun

_SHORT = {
    "absent": "not here",
    "not loaded": "NOT LOADED",
    "crashed": "CRASHED",
    "out of time": "TIME OUT",
    "INCONCLUSIVE": "INCONCL.",
}
_STYLES = {"NOT LOADED": "bold red", "CRASHED": "bold red", "TIME OUT": "yellow"}
_MOST_FINDINGS = 3

EXPLAINED = (
    "deviation: the largest of the law from the target's over all instances; with <= the bound of "
    "the sampled tier's certificate",
    "a PASS of the exact tier holds on every path of its instances; --verbose has each one's "
    "certificate",
    "E[tau]: of a PASS, the least share of the optimum (block verification's) that is accepted on "
    "any one instance; trees of drafts, or drafts that are picked, may make more than 100%",
)
"""What the columns hold, where their names do not say."""


def print_table(run: TableRun, console: Console, *, verbose: bool = False) -> None:
    """Print a row for each engine that is here, what failed and why, and how it adds up.

    ``verbose``: those that are not here too, and each one's function, file and whole hash.
    """
    seconds = dict(zip((row.engine for row in run.rows), run.meta.row_seconds, strict=True))
    shown = [row for row in run.rows if verbose or row.state != "absent"]
    console.print(_grid(shown, seconds, marks(run)))
    for words in EXPLAINED:
        for part in textwrap.wrap(words, WIDTH, subsequent_indent="  "):
            console.print(Text(part, style="dim"), soft_wrap=True)
    for words in notes(run):
        for part in textwrap.wrap(clean(words, 2000), WIDTH, subsequent_indent="  "):
            console.print(Text(part), soft_wrap=True)
    for row in shown:
        lines = told(row)
        if verbose:
            lines = [*about(row), *lines]
        if lines:
            console.print()
            console.print(line(f"{row.engine}: {outcome(row)}", "bold"), soft_wrap=True)
        for words in lines:
            for part in _wrapped(words):
                console.print(Text(part), soft_wrap=True)
    console.print()
    for words in summary(run):
        style = STYLE[run.verdict] if words.startswith(run.verdict) else ""
        for part in textwrap.wrap(clean(words, 2000), WIDTH, subsequent_indent="  "):
            console.print(Text(part, style=style), soft_wrap=True)


def outcome(row: EngineRow) -> str:
    """Return the verdict, or what came in its place."""
    return row.verdict or row.state


def marks(run: TableRun) -> dict[str, str]:
    """Return the number that stands for each note, as ``[1]``: rows that say the same share it."""
    said = dict.fromkeys(row.note for row in run.rows if row.note)
    return {note: f"[{i}]" for i, note in enumerate(said, 1)}


def notes(run: TableRun) -> list[str]:
    """Return each note behind its number and the engines that it is of, one a line."""
    return [
        f"{mark} {listed((row.engine for row in run.rows if row.note == note), 3)}: {note}"
        for note, mark in marks(run).items()
    ]


def version(row: EngineRow) -> str:
    """Return the version, else the commit cut short, else "checkout"; "" where it is absent."""
    if row.found is None:
        return ""
    if row.version is not None or row.commit is None:
        return row.version or "checkout"
    return row.commit[:7] + ("*" if row.commit.endswith(" edited") else "")


def deviation(row: EngineRow) -> str:
    """Return the largest deviation, or the sampled tier's bound."""
    if row.tier == "sampled":  # what the exact tier saw before it gave up is no answer
        return "" if row.certificate is None else f"<={row.certificate.bound:.2g}"
    return "" if row.max_abs_deviation is None else f"{row.max_abs_deviation:.1e}"


def certificate(row: EngineRow) -> str:
    """Return what a PASS rests on: what was tried, and how far off it may be; "" for no PASS."""
    if row.verdict != "PASS":
        return ""
    if row.tier == "sampled":
        return "" if row.certificate is None else certified(row.certificate)
    every = "every box of coins" if row.tier == "coins" else "every path"
    off = 0.0 if row.max_abs_deviation is None else row.max_abs_deviation
    allowed = "" if row.tolerance is None else f", tolerance {row.tolerance:g}"
    on = count(row.instances, "instance")
    return f"{every}, {row.paths:,} on {on}: off by {off:.1e} at most{allowed}"


def share(row: EngineRow) -> str:
    """Return the least share of the optimum."""
    return "" if row.least is None else f"{row.least.share:.1%}"


def where(row: EngineRow) -> str:
    """Return the lines that it may come from, or else the place in the output; "" where none is."""
    if row.verdict != "FAIL":
        return ""
    words = briefly(row.findings, row.localisation)
    if words or row.localisation is None:
        return words
    return place_words(row.localisation)


def told(row: EngineRow) -> list[str]:
    """Return why a row is no PASS, a fact a line."""
    if row.verdict == "PASS" or row.state == "absent":
        return []
    lines = [f"line: {listed(row.lines, 3, 200)}"] if row.lines and row.verdict == "FAIL" else []
    if row.verdict == "FAIL" and row.localisation is not None:
        lines.append(place_words(row.localisation))
        if not row.localisation.alone:
            lines.append("no line decides that token alone: this one decides the output up to it")
        if come := source_words(row.localisation):
            lines.append(come)
    lines += list(dict.fromkeys(filter(None, map(raised_words, row.findings))))
    lines += [found.text for found in row.findings[:_MOST_FINDINGS]]
    if len(row.findings) > _MOST_FINDINGS:
        more = len(row.findings) - _MOST_FINDINGS
        lines.append(f"{count(more, 'finding')} more: see the run file")
    if row.reason:
        lines.append(row.reason)
    if row.state not in ("judged", "absent") and row.exit_code is not None:
        lines.append(f"exit code {row.exit_code}")
    return lines


def about(row: EngineRow) -> list[str]:
    """Return what was audited, whole, or how to get it."""
    lines = [f"{row.function} of {row.file}"]
    if row.sha256 is not None:
        lines.append(f"sha256 {row.sha256}")
    if row.commit is not None:
        lines.append(f"commit {row.commit}")
    if words := certificate(row):
        lines.append(f"certificate: {words}")
    if row.least is not None:
        best = row.least
        lines.append(
            f"on {best.instance} E[tau] is {best.expected_accepted:.4g}, {best.share:.1%} of "
            f"block verification's {best.optimum:.4g}"
        )
    if row.found is None:
        lines.append(f"get it by: {row.how_to_get}")
    return lines


def summary(run: TableRun) -> Iterator[str]:
    """Yield how the rows add up, and what a reader may do about the rest."""
    outcomes = Counter(outcome(row) for row in run.rows if row.state != "absent")
    words = ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items(), key=lambda x: -x[1]))
    yield f"{run.verdict}: {count(sum(outcomes.values()), 'engine')} here: {words}"
    absent = [row.engine for row in run.rows if row.state == "absent"]
    if absent:
        yield f"{len(absent)} not here: {listed(absent)}; see simverify table --list"


def _grid(rows: list[EngineRow], seconds: dict[str, float | None], marked: dict[str, str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for header in ("engine", "version", "sha256", "contract", "tier", "verdict"):
        wide = header in ("engine", "version")
        table.add_column(header, no_wrap=not wide, overflow="fold")
    for header in ("deviation", "E[tau]", "s"):
        side: Literal["right"] = "right"
        table.add_column(Text(header), justify=side, no_wrap=True)
    for row in rows:
        took = seconds[row.engine]
        said = _SHORT.get(outcome(row), outcome(row))
        table.add_row(
            line(row.engine, longest=60),
            line(version(row), longest=30),
            (row.sha256 or "")[:7],
            row.contract if row.found else "",
            row.tier or "",
            Text(said, style=_STYLES.get(said, STYLE.get(outcome(row), "dim")))
            + Text(marked.get(row.note or "", "")),
            deviation(row),
            share(row),
            "" if took is None else f"{took:.0f}",
        )
    return table


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(clean(words, 2000), WIDTH, initial_indent="  ", subsequent_indent="    ")

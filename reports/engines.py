"""A table of engines: its words, the table on a terminal, and as a report."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simverify.checks import clean_line
from simverify.reports.audit_text import (
    divergence_words,
    pluralize,
    raised_words,
    short_location,
    source_words,
)
from simverify.reports.view import (
    VERDICT_MARKS,
    VERDICT_STYLES,
    WIDTH,
    Block,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    Mark,
    Prose,
    Report,
    Section,
    plain_line,
)
from simverify.reports.view import Table as TableView
from simverify.reports.words import MAX_ITEMS, MAX_ROWS, certificate_words, join_names, take_first
from simverify.results import EngineRow, TableRun

_SHORT_OUTCOMES = {
    "absent": "not here",
    "not loaded": "NOT LOADED",
    "crashed": "CRASHED",
    "out of time": "TIME OUT",
    "INCONCLUSIVE": "INCONCL.",
}
_ENGINE_STYLES = {"NOT LOADED": "bold red", "CRASHED": "bold red", "TIME OUT": "yellow"}
_MAX_FINDINGS = 3

COLUMN_NOTES = (
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
    console.print(_engine_grid(shown, seconds, note_marks(run)))
    for words in COLUMN_NOTES:
        for part in textwrap.wrap(words, WIDTH, subsequent_indent="  "):
            console.print(Text(part, style="dim"), soft_wrap=True)
    for words in engine_notes(run):
        for part in textwrap.wrap(clean_line(words, 2000), WIDTH, subsequent_indent="  "):
            console.print(Text(part), soft_wrap=True)
    for row in shown:
        lines = reason_lines(row)
        if verbose:
            lines = [*engine_source(row), *lines]
        if lines:
            console.print()
            console.print(
                plain_line(f"{row.engine}: {engine_outcome(row)}", "bold"), soft_wrap=True
            )
        for words in lines:
            for part in _wrap_lines(words):
                console.print(Text(part), soft_wrap=True)
    console.print()
    for words in table_summary(run):
        style = VERDICT_STYLES[run.verdict] if words.startswith(run.verdict) else ""
        for part in textwrap.wrap(clean_line(words, 2000), WIDTH, subsequent_indent="  "):
            console.print(Text(part, style=style), soft_wrap=True)


def engine_outcome(row: EngineRow) -> str:
    """Return the verdict, or what came in its place."""
    return row.verdict or row.state


def note_marks(run: TableRun) -> dict[str, str]:
    """Return the number that stands for each note, as ``[1]``: rows that say the same share it."""
    texts = dict.fromkeys(row.note for row in run.rows if row.note)
    return {note: f"[{i}]" for i, note in enumerate(texts, 1)}


def engine_notes(run: TableRun) -> list[str]:
    """Return each note behind its number and the engines that it is of, one a line."""
    return [
        f"{mark} {join_names((row.engine for row in run.rows if row.note == note), 3)}: {note}"
        for note, mark in note_marks(run).items()
    ]


def version_text(row: EngineRow) -> str:
    """Return the version, else the commit cut short, else "checkout"; "" where it is absent."""
    if row.found is None:
        return ""
    if row.version is not None or row.commit is None:
        return row.version or "checkout"
    return row.commit[:7] + ("*" if row.commit.endswith(" edited") else "")


def engine_deviation(row: EngineRow) -> str:
    """Return the largest deviation, or the sampled tier's bound."""
    if row.tier == "sampled":  # what the exact tier saw before it gave up is no answer
        return "" if row.certificate is None else f"<={row.certificate.bound:.2g}"
    return "" if row.max_abs_deviation is None else f"{row.max_abs_deviation:.1e}"


def certificate_text(row: EngineRow) -> str:
    """Return what a PASS rests on: what was tried, and how far off it may be; "" for no PASS."""
    if row.verdict != "PASS":
        return ""
    if row.tier == "sampled":
        return "" if row.certificate is None else certificate_words(row.certificate)
    every = "every box of coins" if row.tier == "coins" else "every path"
    off = 0.0 if row.max_abs_deviation is None else row.max_abs_deviation
    allowed = "" if row.tolerance is None else f", tolerance {row.tolerance:g}"
    on = pluralize(row.instances, "instance")
    return f"{every}, {row.paths:,} on {on}: off by {off:.1e} at most{allowed}"


def optimum_share(row: EngineRow) -> str:
    """Return the least share of the optimum."""
    return "" if row.least is None else f"{row.least.share:.1%}"


def failure_location(row: EngineRow) -> str:
    """Return the lines that it may come from, or else the place in the output; "" where none is."""
    if row.verdict != "FAIL":
        return ""
    words = short_location(row.findings, row.localisation)
    if words or row.localisation is None:
        return words
    return divergence_words(row.localisation)


def reason_lines(row: EngineRow) -> list[str]:
    """Return why a row is no PASS, a fact a line."""
    if row.verdict == "PASS" or row.state == "absent":
        return []
    lines = (
        [f"line: {join_names(row.lines, 3, 200)}"] if row.lines and row.verdict == "FAIL" else []
    )
    if row.verdict == "FAIL" and row.localisation is not None:
        lines.append(divergence_words(row.localisation))
        if not row.localisation.alone:
            lines.append("no line decides that token alone: this one decides the output up to it")
        if come := source_words(row.localisation):
            lines.append(come)
    lines += list(dict.fromkeys(filter(None, map(raised_words, row.findings))))
    lines += [found.text for found in row.findings[:_MAX_FINDINGS]]
    if len(row.findings) > _MAX_FINDINGS:
        more = len(row.findings) - _MAX_FINDINGS
        lines.append(f"{pluralize(more, 'finding')} more: see the run file")
    if row.reason:
        lines.append(row.reason)
    if row.state not in ("judged", "absent") and row.exit_code is not None:
        lines.append(f"exit code {row.exit_code}")
    return lines


def engine_source(row: EngineRow) -> list[str]:
    """Return what was audited, whole, or how to get it."""
    lines = [f"{row.function} of {row.file}"]
    if row.sha256 is not None:
        lines.append(f"sha256 {row.sha256}")
    if row.commit is not None:
        lines.append(f"commit {row.commit}")
    if words := certificate_text(row):
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


def table_summary(run: TableRun) -> Iterator[str]:
    """Yield how the rows add up, and what a reader may do about the rest."""
    outcomes = Counter(engine_outcome(row) for row in run.rows if row.state != "absent")
    words = ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items(), key=lambda x: -x[1]))
    yield f"{run.verdict}: {pluralize(sum(outcomes.values()), 'engine')} here: {words}"
    absent = [row.engine for row in run.rows if row.state == "absent"]
    if absent:
        yield f"{len(absent)} not here: {join_names(absent)}; see simverify table --list"


def _engine_grid(
    rows: list[EngineRow], seconds: dict[str, float | None], marked: dict[str, str]
) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for header in ("engine", "version", "sha256", "contract", "tier", "verdict"):
        wide = header in ("engine", "version")
        table.add_column(header, no_wrap=not wide, overflow="fold")
    for header in ("deviation", "E[tau]", "s"):
        side: Literal["right"] = "right"
        table.add_column(Text(header), justify=side, no_wrap=True)
    for row in rows:
        took = seconds[row.engine]
        verdict = _SHORT_OUTCOMES.get(engine_outcome(row), engine_outcome(row))
        table.add_row(
            plain_line(row.engine, longest=60),
            plain_line(version_text(row), longest=30),
            (row.sha256 or "")[:7],
            row.contract if row.found else "",
            row.tier or "",
            Text(
                verdict,
                style=_ENGINE_STYLES.get(verdict, VERDICT_STYLES.get(engine_outcome(row), "dim")),
            )
            + Text(marked.get(row.note or "", "")),
            engine_deviation(row),
            optimum_share(row),
            "" if took is None else f"{took:.0f}",
        )
    return table


def _wrap_lines(words: str) -> list[str]:
    return textwrap.wrap(
        clean_line(words, 2000), WIDTH, initial_indent="  ", subsequent_indent="    "
    )


# The report.


_HASH_DIGITS = 16
"""Hexadecimal digits of a file's hash that a row has room for; the run file has them all."""

_ENGINE_COLUMNS = (
    "engine",
    "verdict",
    "tier",
    "deviation",
    "E[tau]",
    "where",
    "version",
    "contract",
    "s",
    "exit",
    "certificate",
    "file",
    f"SHA-256, first {_HASH_DIGITS}",
)


def table_report(run: TableRun) -> Report:
    """Return the report of a table of engines."""
    return Report(
        command="table",
        title="public engines on trial",
        verdict=run.verdict,
        ruling=_table_ruling(run),
        facts=tuple(_table_facts(run)),
        sections=tuple(_table_sections(run)),
        cases=tuple(_engine_case(row) for row in run.rows),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _table_ruling(run: TableRun) -> str:
    if run.verdict == "FAIL":
        failed = [row.engine for row in run.rows if row.verdict == "FAIL"]
        verb = "does" if len(failed) == 1 else "do"
        return f"{join_names(failed)} {verb} not emit the target's distribution."
    if run.verdict == "PASS":
        return "Every engine that is here emits the target's distribution."
    return "Nothing here is known to be lossy, and not every engine that is here was judged."


def _table_facts(run: TableRun) -> Iterator[Fact]:
    verdict, *absent = table_summary(run)
    yield Fact("Engines", verdict.partition(": ")[2])
    for words in absent:
        yield Fact("Absent", words)
    judged = [row for row in run.rows if row.verdict is not None]
    paths = sum(row.paths for row in judged)
    yield Fact("Paths", f"{paths:,} on {sum(row.instances for row in judged):,} instances")


def _table_sections(run: TableRun) -> Iterator[Section]:
    present = [row for row in run.rows if row.state != "absent"]
    absent = [row for row in run.rows if row.state == "absent"]
    times = dict(zip((row.engine for row in run.rows), run.meta.row_seconds, strict=True))
    shown, left_out = take_first(present, MAX_ROWS)
    marked, notes = note_marks(run), engine_notes(run)
    table = TableView(
        "Each function, audited in a process of its own",
        _ENGINE_COLUMNS,
        tuple(_engine_row(row, times[row.engine], marked.get(row.note or "", "")) for row in shown),
        numbers=frozenset({3, 4, 8, 9}),
        names=frozenset({0, 11}),
        left_out=left_out,
        whole=True,
    )
    yield Section("The table", (table, *(Prose(f"{words}.") for words in COLUMN_NOTES)))
    if notes:
        yield Section("Notes", (Items(*take_first(notes, MAX_ITEMS)),))
    for title, verdict in (("What fails", "FAIL"), ("No verdict", None)):
        rows = [
            row
            for row in present
            if row.verdict == verdict or (verdict is None and row.verdict == "INCONCLUSIVE")
        ]
        if rows:
            yield Section(title, tuple(_engine_blocks(rows)))
    if absent:
        entries = tuple(f"{row.engine}: {row.reason}; {row.how_to_get}" for row in absent)
        yield Section("Not here", (Items(*take_first(entries, MAX_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _engine_blocks(rows: list[EngineRow]) -> Iterator[Block]:
    for row in rows:
        yield Prose(f"{row.engine}, {row.function} of {row.file}: {engine_outcome(row)}.")
        yield Items(*take_first(tuple(reason_lines(row)), MAX_ITEMS))
        if row.reproduce is not None:
            yield Command(row.reproduce)


def _engine_row(row: EngineRow, seconds: float | None, noted: str) -> tuple[Cell, ...]:
    mark: Mark = "fail" if row.verdict is None else VERDICT_MARKS[row.verdict]
    if row.state == "out of time":
        mark = "open"
    bound = None if row.certificate is None else row.certificate.bound
    deviation = bound if row.tier == "sampled" else row.max_abs_deviation
    return (
        Cell(row.engine),
        Cell(engine_outcome(row) + noted, mark=mark),
        Cell(row.tier or ""),
        Cell(engine_deviation(row), deviation),
        Cell(optimum_share(row), None if row.least is None else row.least.share),
        Cell(failure_location(row) if row.verdict == "FAIL" else row.reason),
        Cell(version_text(row)),
        Cell(row.contract),
        Cell("" if seconds is None else f"{seconds:.0f}", seconds),
        Cell("" if row.exit_code is None else str(row.exit_code), row.exit_code),
        Cell(certificate_text(row)),
        Cell(row.file),
        Cell((row.sha256 or "")[:_HASH_DIGITS]),
    )


def _engine_case(row: EngineRow) -> Case:
    name = f"table {row.engine}"
    message = "\n".join([*reason_lines(row), *([f"note: {row.note}"] if row.note else [])])
    if row.state == "absent":
        return Case(name, "skipped", f"{row.reason}: {row.how_to_get}")
    if row.verdict == "PASS":
        rests_on = {"tier": row.tier or "", "certificate": certificate_text(row)}
        rests_on |= {"note": row.note} if row.note else {}
        return Case(name, "passed", rests_on=tuple(rests_on.items()))
    return Case(name, "failed" if row.verdict == "FAIL" else "inconclusive", message)

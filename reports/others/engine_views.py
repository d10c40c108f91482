"""A table of engines as a report."""

from collections.abc import Iterator

from simverify.reports.others import engines as say
from simverify.reports.view import (
    MARKS,
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
    Table,
)
from simverify.reports.words import MOST_ITEMS, MOST_ROWS, first, listed
from simverify.results import EngineRow, TableRun

_OF_A_HASH = 16
"""Hexadecimal digits of a file's hash that a row has room for; the run file has them all."""

_COLUMNS = (
    "engine", "verdict", "tier", "deviation", "E[tau]", "where", "version", "contract",
    "s", "exit", "certificate", "file",
    f"SHA-256, first {_OF_A_HASH}",
)  # fmt: skip


def table_report(run: TableRun) -> Report:
    """Return the report of a table of engines."""
    return Report(
        command="table",
        title="public engines on trial",
        verdict=run.verdict,
        ruling=_ruling(run),
        facts=tuple(_facts(run)),
        sections=tuple(_sections(run)),
        cases=tuple(_case(row) for row in run.rows),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _ruling(run: TableRun) -> str:
    if run.verdict == "FAIL":
        failed = [row.engine for row in run.rows if row.verdict == "FAIL"]
        verb = "does" if len(failed) == 1 else "do"
        return f"{listed(failed)} {verb} not emit the target's distribution."
    if run.verdict == "PASS":
        return "Every engine that is here emits the target's distribution."
    return "Nothing here is known to be lossy, and not every engine that is here was judged."


def _facts(run: TableRun) -> Iterator[Fact]:
    verdict, *absent = say.summary(run)
    yield Fact("Engines", verdict.partition(": ")[2])
    for words in absent:
        yield Fact("Absent", words)
    judged = [row for row in run.rows if row.verdict is not None]
    paths = sum(row.paths for row in judged)
    yield Fact("Paths", f"{paths:,} on {sum(row.instances for row in judged):,} instances")


def _sections(run: TableRun) -> Iterator[Section]:
    here = [row for row in run.rows if row.state != "absent"]
    absent = [row for row in run.rows if row.state == "absent"]
    times = dict(zip((row.engine for row in run.rows), run.meta.row_seconds, strict=True))
    shown, left_out = first(here, MOST_ROWS)
    marked, notes = say.marks(run), say.notes(run)
    table = Table(
        "Each function, audited in a process of its own",
        _COLUMNS,
        tuple(_row(row, times[row.engine], marked.get(row.note or "", "")) for row in shown),
        numbers=frozenset({3, 4, 8, 9}),
        names=frozenset({0, 11}),
        left_out=left_out,
        whole=True,
    )
    yield Section("The table", (table, *(Prose(f"{words}.") for words in say.EXPLAINED)))
    if notes:
        yield Section("Notes", (Items(*first(notes, MOST_ITEMS)),))
    for title, verdict in (("What fails", "FAIL"), ("No verdict", None)):
        rows = [
            row
            for row in here
            if row.verdict == verdict or (verdict is None and row.verdict == "INCONCLUSIVE")
        ]
        if rows:
            yield Section(title, tuple(_told(rows)))
    if absent:
        entries = tuple(f"{row.engine}: {row.reason}; {row.how_to_get}" for row in absent)
        yield Section("Not here", (Items(*first(entries, MOST_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _told(rows: list[EngineRow]) -> Iterator[Block]:
    for row in rows:
        yield Prose(f"{row.engine}, {row.function} of {row.file}: {say.outcome(row)}.")
        yield Items(*first(tuple(say.told(row)), MOST_ITEMS))
        if row.reproduce is not None:
            yield Command(row.reproduce)


def _row(row: EngineRow, seconds: float | None, noted: str) -> tuple[Cell, ...]:
    mark: Mark = "fail" if row.verdict is None else MARKS[row.verdict]
    if row.state == "out of time":
        mark = "open"
    bound = None if row.certificate is None else row.certificate.bound
    deviation = bound if row.tier == "sampled" else row.max_abs_deviation
    return (
        Cell(row.engine),
        Cell(say.outcome(row) + noted, mark=mark),
        Cell(row.tier or ""),
        Cell(say.deviation(row), deviation),
        Cell(say.share(row), None if row.least is None else row.least.share),
        Cell(say.where(row) if row.verdict == "FAIL" else row.reason),
        Cell(say.version(row)),
        Cell(row.contract),
        Cell("" if seconds is None else f"{seconds:.0f}", seconds),
        Cell("" if row.exit_code is None else str(row.exit_code), row.exit_code),
        Cell(say.certificate(row)),
        Cell(row.file),
        Cell((row.sha256 or "")[:_OF_A_HASH]),
    )


def _case(row: EngineRow) -> Case:
    name = f"table {row.engine}"
    message = "\n".join([*say.told(row), *([f"note: {row.note}"] if row.note else [])])
    if row.state == "absent":
        return Case(name, "skipped", f"{row.reason}: {row.how_to_get}")
    if row.verdict == "PASS":
        rests_on = {"tier": row.tier or "", "certificate": say.certificate(row)}
        rests_on |= {"note": row.note} if row.note else {}
        return Case(name, "passed", rests_on=tuple(rests_on.items()))
    return Case(name, "failed" if row.verdict == "FAIL" else "inconclusive", message)

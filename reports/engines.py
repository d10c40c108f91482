"""A table of engines as a report."""

from collections import Counter
from collections.abc import Iterator

from simverify.reports.audit import divergence_words, short_location, source_words
from simverify.reports.view import (
    VERDICT_MARKS,
    Block,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    On,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import (
    certificate_words,
    join_names,
    make_report,
    make_table,
    pluralize,
    section_of,
    verdict_case,
)
from simverify.results import EngineRow, TableRun

_SHORT_OUTCOMES = {
    "not loaded": "NOT LOADED",
    "crashed": "CRASHED",
    "out of time": "TIME OUT",
    "INCONCLUSIVE": "INCONCL.",
}
_MAX_FINDINGS = 3

_HASH_DIGITS = 16
"""Hexadecimal digits of a file's hash that a row has room for; the run file has them all."""

COLUMN_NOTES = (
    "deviation: the largest from the target's distribution over all instances; <= marks the bound "
    "of the sampled tier's certificate",
    "a PASS of the exact tier holds on every path of its instances; --verbose has each one's "
    "certificate",
    "E[tau]: of a PASS, the least share of the optimum (block verification's) that is accepted on "
    "any one instance; trees of drafts, or drafts that are picked, may make more than 100%",
)
"""What the columns hold, where their names do not say."""


def table_report(run: TableRun) -> Report:
    """Return the report of a table of engines."""
    outcomes = Counter(_engine_outcome(row) for row in run.rows if row.state != "absent")
    words = ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items(), key=lambda x: -x[1]))
    counts = f"{pluralize(outcomes.total(), 'engine')} here: {words}"
    judged = [row for row in run.rows if row.verdict is not None]
    paths = sum(row.paths for row in judged)
    facts = [
        Fact("Engines", counts, On.PAGE),
        Fact("Paths", f"{paths:,} on {sum(row.instances for row in judged):,} instances", On.PAGE),
    ]
    if absent := [row.engine for row in run.rows if row.state == "absent"]:
        words = f"{len(absent)} not here: {join_names(absent)}; see simverify table --list"
        facts.append(Fact("Absent", words))
    return make_report(
        run,
        "table",
        "public engines on trial",
        _table_ruling(run),
        facts,
        _table_sections(run),
        map(_engine_case, run.rows),
        headline=f"{run.verdict}: {counts}",
        verdict_last=True,
    )


def _table_ruling(run: TableRun) -> str:
    if run.verdict == "FAIL":
        failed = [row.engine for row in run.rows if row.verdict == "FAIL"]
        verb = "does" if len(failed) == 1 else "do"
        return f"{join_names(failed)} {verb} not emit the target's distribution."
    if run.verdict == "PASS":
        return "Every engine that is here emits the target's distribution."
    return "Nothing here is known to be lossy, and not every engine that is here was judged."


def _table_sections(run: TableRun) -> Iterator[Section]:
    present = [row for row in run.rows if row.state != "absent"]
    notes = Items(tuple(f"{words}." for words in COLUMN_NOTES))
    yield Section("The table", (_engine_table(run, present), notes), On.ALL, indent=0)
    yield from section_of("Notes", engine_notes(run))
    for title, verdicts in (("What fails", ("FAIL",)), ("No verdict", (None, "INCONCLUSIVE"))):
        rows = [row for row in present if row.verdict in verdicts]
        if rows:
            yield Section(title, tuple(_engine_blocks(rows)), On.ALL)
    sources = [f"{row.engine}: {'; '.join(_engine_source(row))}" for row in present]
    yield from section_of("What was audited", sources, On.VERBOSE)
    absent = [
        f"{row.engine}: {row.reason}; {row.how_to_get}" for row in run.rows if row not in present
    ]
    yield from section_of("Not here", absent, On.DETAIL)
    yield Section("To reproduce", (Command(run.reproduce),))


def _engine_blocks(rows: list[EngineRow]) -> Iterator[Block]:
    for row in rows:
        yield Prose(f"{row.engine}: {_engine_outcome(row)}, {row.function} of {row.file}:")
        yield Items(tuple(reason_lines(row)))
        if row.reproduce is not None:
            yield Command(row.reproduce, on=On.PAGE)


def _engine_table(run: TableRun, rows: list[EngineRow]) -> Table:
    seconds = dict(zip((row.engine for row in run.rows), run.meta.row_seconds, strict=True))
    marks = note_marks(run)
    return make_table(
        "Each function, audited in a process of its own",
        "engine | verdict | tier | deviation | E[tau] | where | version | contract | s | exit | "
        f"certificate | file | SHA-256, first {_HASH_DIGITS}",
        (_engine_row(row, seconds[row.engine], marks.get(row.note or "", "")) for row in rows),
        names=frozenset({0, 11}),
        whole=True,
        narrow=(
            "0:engine | 6:version | 12:sha256 | 7:contract | 2:tier | 1:verdict | 3:deviation | "
            "4:E[tau] | 8:s"
        ),
    )


def _engine_row(row: EngineRow, seconds: float | None, note: str) -> Iterator[Cell | str | None]:
    outcome = _engine_outcome(row)
    mark = "fail" if row.verdict is None else VERDICT_MARKS[row.verdict]
    yield row.engine
    yield Cell(
        outcome + note,
        mark="open" if row.state == "out of time" else mark,
        short=_SHORT_OUTCOMES.get(outcome, outcome) + note,
    )
    yield row.tier
    bound = None if row.certificate is None else row.certificate.bound
    yield Cell(engine_deviation(row), bound if row.tier == "sampled" else row.max_abs_deviation)
    yield None if row.least is None else Cell(f"{row.least.share:.1%}", row.least.share)
    yield _failure_location(row) if row.verdict == "FAIL" else row.reason
    yield _version_text(row)
    yield Cell(row.contract, short=row.contract if row.found else "")
    yield Cell("" if seconds is None else f"{seconds:.0f}", seconds)
    yield Cell("" if row.exit_code is None else str(row.exit_code), row.exit_code)
    yield certificate_text(row)
    yield row.file
    yield Cell((row.sha256 or "")[:_HASH_DIGITS], short=(row.sha256 or "")[:7])


def _engine_case(row: EngineRow) -> Case:
    name = f"table {row.engine}"
    if row.state == "absent":
        return Case(name, "skipped", f"{row.reason}: {row.how_to_get}")
    if row.verdict == "PASS":
        rests_on = {"tier": row.tier or "", "certificate": certificate_text(row)}
        rests_on |= {"note": row.note} if row.note else {}
        return Case(name, "passed", rests_on=tuple(rests_on.items()))
    message = "\n".join([*reason_lines(row), *([f"note: {row.note}"] if row.note else [])])
    return verdict_case(name, row.verdict or "INCONCLUSIVE", message)


# The words of a row.


def _engine_outcome(row: EngineRow) -> str:
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


def _version_text(row: EngineRow) -> str:
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


def _failure_location(row: EngineRow) -> str:
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
    lines += list(dict.fromkeys(filter(None, map(source_words, row.findings))))
    lines += [finding.text for finding in row.findings[:_MAX_FINDINGS]]
    if len(row.findings) > _MAX_FINDINGS:
        more = len(row.findings) - _MAX_FINDINGS
        lines.append(f"{pluralize(more, 'finding')} more: see the run file")
    if row.reason:
        lines.append(row.reason)
    if row.state not in ("judged", "absent") and row.exit_code is not None:
        lines.append(f"exit code {row.exit_code}")
    return lines


def _engine_source(row: EngineRow) -> list[str]:
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
    return lines

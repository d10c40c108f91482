"""Surveys and plans in words: bisection, sweep, self-test, plan, recorded runs, baseline checks."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from simverify.checks import clean_line
from simverify.history.record import Entry, memory_words
from simverify.reports.audit_text import pluralize
from simverify.reports.view import (
    VERDICT_MARKS,
    VERDICT_STYLES,
    WIDTH,
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
    plain_line,
)
from simverify.reports.words import (
    MAX_ITEMS,
    MAX_ROWS,
    join_names,
    number_cell,
    optional_cell,
    take_first,
)
from simverify.results import (
    BisectRun,
    PlanRun,
    SelfTestRun,
    SweepAudit,
    SweepCell,
    SweepRun,
    Tried,
    Visited,
)

if TYPE_CHECKING:
    from simverify.history.baseline import Check, Item  # scipy.stats takes half a second

# A bisection: words, text and report.


_OUTCOME_STYLES = {"changed": "bold red", "open": "yellow", "unchanged": "green"}
_MAX_SKIPPED = 8


def print_bisection(run: BisectRun, console: Console, *, verbose: bool = False) -> None:
    """Print what was audited, in order, and what is known of the first that differs."""
    order = {version: i for i, version in enumerate(run.versions)}
    for one in sorted(run.tried, key=lambda one: order[one.version]):
        for part in _wrapped_lines(visit_words(run, one)):
            console.print(Text(part), soft_wrap=True)
    console.print()
    head, *rest = bisection_facts(run)
    for n, words in enumerate((head, *rest)):
        for part in _wrapped_lines(words):
            console.print(
                Text(part, style="" if n else _OUTCOME_STYLES[run.outcome]), soft_wrap=True
            )


def short_version(run: BisectRun, version: str) -> str:
    """Return a release as it is, and a commit's first letters."""
    return version if run.source == "releases" else version[:10]


def visit_words(run: BisectRun, one: Visited) -> str:
    """Return what came of a version, in a line."""
    outcome: str = one.verdict or one.state
    if one.max_abs_deviation is not None:
        on = pluralize(one.instances, "instance")
        outcome += f", largest deviation {one.max_abs_deviation:.1e} on {on}"
    how = {True: "changed", False: "as good", None: "skipped"}[one.changed]
    why = f": {one.reason}" if one.reason else ""
    title = f" ({one.title})" if one.title else ""
    return f"{short_version(run, one.version)}{title}: {how}; {outcome}{why}"


def bisection_facts(run: BisectRun) -> Iterator[str]:
    """Yield what is known of the first version that differs, a fact a line."""
    noun = run.source.removesuffix("s")
    within = len(run.versions) - 2
    if run.first is None or run.last is None:
        what = "law" if run.what == "law" else "verdict"
        yield (
            f"no change: {short_version(run, run.bad)} of {run.package} has the {what} of "
            f"{short_version(run, run.good)}, so that there is nothing to look for in between"
        )
        return
    named = short_version(run, run.first)
    title = next((one.title for one in run.tried if one.version == run.first), "")
    if run.outcome == "changed":
        yield f"{named} is the first {noun} of {run.package} that differs" + (
            f": {title}" if title else ""
        )
    else:
        order = run.versions.index
        between = [
            short_version(run, v) for v in run.versions[order(run.last) + 1 : order(run.first)]
        ]
        yield (
            f"{named} of {run.package} differs, and {short_version(run, run.last)} does not; what "
            "lies "
            f"between could not be judged: {join_names(between, _MAX_SKIPPED)}"
        )
    yield f"how: {run.how}"
    if run.lines:
        yield f"line: {join_names(run.lines, 3, 200)}"
    if run.differences:
        yield f"the law differs on {pluralize(len(run.differences), 'instance')}"
    if within == 0:
        yield (
            f"no {noun} lies between {short_version(run, run.good)} and "
            f"{short_version(run, run.bad)}"
        )
    else:
        yield (
            f"audited {len(run.tried)} of {len(run.versions)}; a change that was undone in between "
            "is not seen"
        )
    if run.skipped and run.outcome == "changed":
        yield (
            "skipped: "
            f"{join_names([short_version(run, one.version) for one in run.skipped], _MAX_SKIPPED)}"
        )


def bisect_report(run: BisectRun) -> Report:
    """Return the report of a bisection, which judges no code: what changed may be for the better.

    A server that counts tests is told of a change as a failure.
    """
    head, *rest = bisection_facts(run)
    outcomes: dict[str, Case] = {
        "changed": Case(f"bisect {run.spec}", "failed", "\n".join((head, *rest))),
        "open": Case(f"bisect {run.spec}", "inconclusive", "\n".join((head, *rest))),
        "unchanged": Case(f"bisect {run.spec}", "passed"),
    }
    return Report(
        command="bisect",
        title=f"{run.spec}, {short_version(run, run.good)} to {short_version(run, run.bad)}",
        verdict=None,
        ruling=f"{head[0].upper()}{head[1:]}.",
        facts=(
            Fact("Searched", f"{pluralize(len(run.versions), run.source[:-1])} of {run.package}"),
            Fact("Change", "of the law" if run.what == "law" else "of the verdict"),
        ),
        sections=tuple(_bisect_sections(run, rest)),
        cases=(outcomes[run.outcome],),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _bisect_sections(run: BisectRun, rest: list[str]) -> Iterator[Section]:
    if rest:
        yield Section("What changed", (Items(*take_first(rest, MAX_ITEMS)),))
    if run.differences:
        yield Section("The laws", (_difference_table(run),))
    yield Section("Audited", (_visit_table(run),))
    yield Section(
        "To reproduce",
        (
            Prose("Every version is audited in a place of its own, with the same seed."),
            Command(run.reproduce),
        ),
    )


def _difference_table(run: BisectRun) -> Table:
    shown, left_out = take_first(run.differences, MAX_ROWS)
    return Table(
        "Instances on which the laws differ, the largest difference first",
        ("instance", "deviation before", "after", "TV before", "after", "E[tau] before", "after"),
        tuple(
            (
                Cell(one.instance),
                number_cell(one.before.max_abs_deviation, 3),
                number_cell(one.after.max_abs_deviation, 3),
                number_cell(one.before.tv, 3),
                number_cell(one.after.tv, 3),
                optional_cell(one.before.expected_accepted, ""),
                optional_cell(one.after.expected_accepted, ""),
            )
            for one in shown
        ),
        numbers=frozenset(range(1, 7)),
        names=frozenset({0}),
        left_out=left_out,
    )


def _visit_table(run: BisectRun) -> Table:
    order = {version: i for i, version in enumerate(run.versions)}
    shown, left_out = take_first(sorted(run.tried, key=lambda one: order[one.version]), MAX_ROWS)
    return Table(
        "Versions in their order; the others were not asked",
        ("version", "subject", "verdict", "differs", "deviation", "instances", "why"),
        tuple(
            (
                Cell(one.version),
                Cell(one.title),
                Cell(
                    one.verdict or one.state,
                    mark=VERDICT_MARKS[one.verdict] if one.verdict else "open",
                ),
                Cell({True: "yes", False: "no", None: "skipped"}[one.changed]),
                optional_cell(one.max_abs_deviation, "", 3),
                Cell(f"{one.instances:,}", one.instances),
                Cell(one.reason),
            )
            for one in shown
        ),
        numbers=frozenset({4, 5}),
        names=frozenset({0}),
        left_out=left_out,
    )


def _wrapped_lines(words: str) -> list[str]:
    return textwrap.wrap(clean_line(words, 2000), WIDTH, subsequent_indent="  ")


# A plan as text for a terminal, 80 columns wide.


def print_plan(run: PlanRun, console: Console, *, verbose: bool = False) -> None:
    """Print what was asked, the table of all tests, and what its times rest on."""
    console.print(plain_line(plan_title(run), "bold"))
    console.print(_plan_table(run))
    notes: dict[str, list[str]] = {}
    for row in run.rows:
        notes.setdefault(row.measure, []).append(row.test)
    for measure, tests in notes.items():
        console.print(plain_line(f"{', '.join(tests)}: {measure}", "dim"))
    for words in plan_basis(run):
        console.print(plain_line(words))


def plan_title(run: PlanRun) -> str:
    """Return what was asked, in a line."""
    scale = f"V = {run.vocab_size}, gamma = {run.gamma}, alpha {run.alpha:g}, power {run.power:g}"
    if run.samples is None:
        return f"To find {run.deviation:g}: {scale}"
    budget = f"{run.samples:.3g} tokens"
    if run.seconds is not None:
        budget = f"{run.seconds:g} s here, {budget}"
    return f"What {budget} find: {scale}"


def _plan_table(run: PlanRun) -> RichTable:
    table = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("test", no_wrap=True)
    for header in ("level", "deviation", "samples", "", "time here"):
        side: Literal["left", "right"] = "left" if header == "" else "right"
        table.add_column(header, justify=side, no_wrap=True)
    for row, seconds in zip(run.rows, run.meta.row_seconds, strict=True):
        table.add_row(
            plain_line(row.test, longest=40),
            f"{row.level:.1e}",
            "none" if row.deviation is None else f"{row.deviation:.3g}",
            "none will do" if row.samples is None else f"{row.samples:.3g}",
            "" if row.samples is None else row.unit,
            "" if seconds is None else duration_text(seconds),
        )
    return table


def plan_basis(run: PlanRun) -> list[str]:
    """Return what the times and levels rest on."""
    timing = run.meta.timings[0]
    threads = f"{run.meta.threads} thread{'s' * (run.meta.threads > 1)}"
    return [
        f"Times: {timing.verifier} on {timing.model}, {threads}, everything counted: "
        f"{timing.blocks_per_second:.3g} blocks a second of {run.tokens_per_block:.3g} tokens, "
        "timed just now.",
        "Levels are those at the end of a run of four looks that splits alpha over all tests. "
        f"Transitions are counted in {run.contexts} contexts.",
    ]


def duration_text(seconds: float) -> str:
    """Return a time in its largest unit."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"


# A recorded run: what is known of it beside its document.


def entry_lines(entry: Entry) -> list[str]:
    """Return all that is known of a run, a fact a line; nothing of what is not known."""
    return [f"{name}: {value}" for name, value in _entry_facts(entry) if value]


def _entry_facts(entry: Entry) -> Iterator[tuple[str, str]]:
    yield "run", str(entry.id)
    yield "command line", entry.words
    yield "started", entry.started
    yield "version", entry.version
    yield "machine", f"{entry.machine}, Python {entry.python}"
    yield "host", entry.host or ""
    yield "system", entry.system or ""
    cores = "" if entry.cores is None else f", {entry.cores} cores"
    memory = "" if entry.memory is None else f", {memory_words(entry.memory)} of memory"
    yield "processor", f"{entry.processor}{cores}{memory}" if entry.processor else ""
    yield "GPU", entry.gpu or ""
    yield "packages", ", ".join(f"{name} {told}" for name, told in entry.packages.items())
    yield "seed", "" if entry.seed is None else str(entry.seed)
    for code in entry.code:
        yield "code", code.spec
        yield "  of", code.package
        yield "  commit", code.commit or ""
        yield "  SHA-256", code.sha256 or "its file was not found"
    yield "sources of simverify", entry.sources_sha256 or ""
    yield "document", entry.document_sha256


# A self-test as text for a terminal.


CATCH_WORDS = {
    ("fault", True): "caught",
    ("fault", False): "missed",
    ("control", True): "FALSE ALARM",
    ("control", False): "passed",
}
EFFORT_UNITS = {"exact": "paths", "sampled": "calls", "probe": "probes"}


def print_self_test(run: SelfTestRun, console: Console, *, verbose: bool = False) -> None:
    """Print every entry of the catalogue with its outcome, and the verdict."""
    table = RichTable(box=None, padding=(0, 2, 0, 0))
    for header in ("name", "kind", "outcome", "tier", "effort", "TV"):
        right = header in ("effort", "TV")
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    shown, more = take_first(run.results, 5 * MAX_ROWS)
    for entry in shown:
        style = "green" if entry.as_expected else "bold red"
        table.add_row(
            plain_line(entry.name, longest=60),
            entry.kind,
            Text(CATCH_WORDS[entry.kind, entry.caught], style=style),
            entry.tier,
            f"{entry.effort:,} {EFFORT_UNITS[entry.tier]}",
            "" if entry.tv is None else f"{entry.tv:.2g}",
        )
    console.print(table)
    words = "every fault was caught and every control passed"
    if more:
        console.print(f"{more:,} entries more stand in the run file")
    unexpected = join_names(run.unexpected, MAX_ITEMS) or words
    console.print(Text(f"{run.verdict}: {unexpected}", style=VERDICT_STYLES[run.verdict]))


# A sweep as text for a terminal, and as a report.


_SWEEP_COLUMNS = (
    "verifier",
    "model",
    "T",
    "dist",
    "gamma",
    "drafts",
    "seed",
    "E[tau]",
    "of best",
    "verdict",
)
_NUMBER_COLUMNS = frozenset({"T", "dist", "gamma", "seed", "E[tau]", "of best"})
_NAME_COLUMNS = frozenset({"verifier", "model"})
_SHORT_VERDICTS = {"INCONCLUSIVE": "INCONCL."}
_MAX_TERMINAL_CELLS = 100
"""Rows that a terminal shows; the report and the document have more."""


def print_sweep(run: SweepRun, console: Console, *, verbose: bool = False) -> None:
    """Print a row for each cell and each audit, what failed, and how it adds up.

    ``verbose``: all cells, however many, and every finding.
    """
    cells, left_out = take_first(run.cells, len(run.cells) if verbose else _MAX_TERMINAL_CELLS)
    if cells:
        console.print(_sweep_grid(cells))
    if left_out:
        console.print(plain_line(f"{left_out:,} more cells: simverify report, or --verbose"))
    if run.audits:
        console.print(_audit_grid(run.audits))
    for words in _sweep_findings(run, most=None if verbose else MAX_ITEMS):
        _print_lines(words, console)
    console.print()
    for words in sweep_summary(run):
        _print_lines(
            words, console, VERDICT_STYLES[run.verdict] if words.startswith(run.verdict) else ""
        )


def _print_lines(words: str, console: Console, style: str = "") -> None:
    for part in textwrap.wrap(clean_line(words, 2000), WIDTH, subsequent_indent="  "):
        console.print(Text(part, style=style), soft_wrap=True)


def sweep_summary(run: SweepRun) -> Iterator[str]:
    """Yield the verdict with how many of each there are, and what the error rate is of."""
    verdicts = [cell.result.verdict for cell in run.cells]
    verdicts += [audit.verdict or "INCONCLUSIVE" for audit in run.audits]
    counted = (("failed", "FAIL"), ("without verdict", "INCONCLUSIVE"), ("passed", "PASS"))
    shown = [f"{verdicts.count(v):,} {words}" for words, v in counted if v in verdicts]
    yield f"{run.verdict}: {', '.join(shown)}"
    if run.alpha_each is not None:
        yield (
            f"alpha {run.alpha:g} for all cells together, {run.alpha_each:.3g} each; "
            f"{run.blocks:,} blocks a cell"
        )


def sweep_report(run: SweepRun) -> Report:
    """Return the report of a sweep."""
    verdict, *rates = sweep_summary(run)
    facts = [Fact("Cells and audits", verdict.partition(": ")[2])]
    facts += [Fact("Error rate", words) for words in rates]
    versions = run.versions
    return Report(
        command="sweep",
        title="a sweep",
        verdict=run.verdict,
        ruling=_SWEEP_RULINGS[run.verdict],
        facts=tuple(facts),
        sections=tuple(_sweep_sections(run)),
        cases=tuple(_sweep_cases(run)),
        version=versions.simverify,
        started="",
        machine=f"Python {versions.python}, numpy {versions.numpy}",
        seed=run.cells[0].seed if run.cells else run.audits[0].seed,
    )


_SWEEP_RULINGS = {
    "PASS": "Every cell and every audit passed.",
    "FAIL": "Something in this sweep does not emit the target's distribution.",
    "INCONCLUSIVE": "Nothing here is known to be lossy, and not everything has a verdict.",
}


def _sweep_sections(run: SweepRun) -> Iterator[Section]:
    if run.cells:
        shown, left_out = take_first(run.cells, MAX_ROWS)
        columns, rows = _sweep_table(shown)
        table = Table(
            "Each cell, judged by itself",
            columns,
            rows,
            numbers=frozenset(i for i, name in enumerate(columns) if name in _NUMBER_COLUMNS),
            names=frozenset(i for i, name in enumerate(columns) if name in _NAME_COLUMNS),
            left_out=left_out,
        )
        words = "of best: E[tau] over that of the best rule of its kind."
        yield Section("The cells", (table, Prose(words)))
    if run.audits:
        audits, left_out = take_first(run.audits, MAX_ROWS)
        table = Table(
            "Each audit, in a process of its own",
            ("code", "gamma", "seed", "tier", "verdict", "deviation", "why"),
            tuple(_audit_row(audit) for audit in audits),
            numbers=frozenset({1, 2, 5}),
            names=frozenset({0}),
            left_out=left_out,
        )
        yield Section("The audits", (table,))
    failures = tuple(_sweep_findings(run, most=None))
    if failures:
        yield Section("What fails", (Items(*take_first(failures, MAX_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _sweep_table(
    cells: Sequence[SweepCell],
) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    """Return the columns of which a cell has something to say, and the rows."""
    rows = [tuple(_sweep_row(cell)) for cell in cells]
    columns = [i for i in range(len(_SWEEP_COLUMNS)) if any(row[i].text for row in rows)]
    return tuple(_SWEEP_COLUMNS[i] for i in columns), tuple(
        tuple(row[i] for i in columns) for row in rows
    )


def _sweep_row(cell: SweepCell) -> Iterator[Cell]:
    row, model = cell.result, cell.model
    tau = row.block_efficiency - 1
    yield Cell(row.verifier)
    yield Cell(row.model)
    for knob in (model.temperature, model.draft_distance):
        yield Cell("" if knob is None else f"{knob:g}", knob)
    yield Cell(str(row.gamma), row.gamma)
    yield Cell("" if cell.drafts is None else f"{cell.drafts} {cell.scheme}")
    yield Cell(str(cell.seed), cell.seed)
    yield Cell(f"{tau:.4f}", tau)
    yield Cell(f"{row.optimality:.1%}", row.optimality)
    yield Cell(row.verdict, mark=VERDICT_MARKS[row.verdict])


def _audit_row(audit: SweepAudit) -> tuple[Cell, ...]:
    mark: Mark = "fail" if audit.verdict is None else VERDICT_MARKS[audit.verdict]
    deviation = audit.max_abs_deviation
    return (
        Cell(audit.spec),
        Cell("" if audit.gamma is None else str(audit.gamma), audit.gamma),
        Cell(str(audit.seed), audit.seed),
        Cell(audit.tier or ""),
        Cell(audit.verdict or audit.state, mark=mark),
        Cell("" if deviation is None else f"{deviation:.2g}", deviation),
        Cell(audit.reason or "; ".join(found.text for found in audit.findings)),
    )


def _sweep_grid(cells: tuple[SweepCell, ...]) -> RichTable:
    grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns, rows = _sweep_table(cells)
    for name in columns:
        side: Literal["left", "right"] = "right" if name in _NUMBER_COLUMNS else "left"
        # A long name takes more lines: it is never cut short.
        grid.add_column(
            Text(name), justify=side, no_wrap=name not in _NAME_COLUMNS, overflow="fold"
        )
    for cell, row in zip(cells, rows, strict=True):
        *texts, verdict = (part.text for part in row)
        shown = plain_line(
            _SHORT_VERDICTS.get(verdict, verdict), VERDICT_STYLES[cell.result.verdict]
        )
        grid.add_row(*(plain_line(text) for text in texts), shown)
    return grid


def _audit_grid(audits: tuple[SweepAudit, ...]) -> RichTable:
    grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns: tuple[tuple[str, Literal["left", "right"]], ...] = (
        ("code", "left"),
        ("gamma", "right"),
        ("seed", "right"),
        ("tier", "left"),
        ("verdict", "left"),
    )
    for header, side in columns:
        grid.add_column(header, justify=side, no_wrap=header != "code", overflow="fold")
    for audit in audits:
        code, gamma, seed, tier, verdict, *_ = (part.text for part in _audit_row(audit))
        style = VERDICT_STYLES.get(verdict, "bold red")
        shown = Text(_SHORT_VERDICTS.get(verdict, verdict), style=style)
        grid.add_row(*(plain_line(text) for text in (code, gamma, seed, tier)), shown)
    return grid


def _sweep_findings(run: SweepRun, most: int | None) -> Iterator[str]:
    """Yield what failed and why, a line each; of ``most`` things at most."""
    number = 0
    for name, verdict, words in _sweep_outcomes(run):
        if verdict != "PASS" and words and (most is None or number < most):
            number += 1
            yield f"{name}: {'; '.join(words)}"


def _sweep_outcomes(run: SweepRun) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for cell in run.cells:
        row = cell.result
        yield cell.name, row.verdict, (*row.lossless.findings, *row.acceptance.findings)
    for audit in run.audits:
        words = (audit.reason,) if audit.reason else tuple(x.text for x in audit.findings)
        yield audit.name, audit.verdict or audit.state, words


def _sweep_cases(run: SweepRun) -> Iterator[Case]:
    for name, verdict, words in _sweep_outcomes(run):
        if verdict == "PASS":
            yield Case(name, "passed")
        else:
            outcome: Literal["failed", "inconclusive"]
            outcome = "failed" if verdict == "FAIL" else "inconclusive"
            yield Case(name, outcome, "\n".join(words))


# A self-test and a plan as reports.


def self_test_report(run: SelfTestRun) -> Report:
    """Return the report of a self-test."""
    faults = [entry for entry in run.results if entry.kind == "fault"]
    controls = [entry for entry in run.results if entry.kind == "control"]
    caught = sum(entry.caught for entry in faults)
    ruling = (
        "The audit is fit for use here: it caught every catalogued fault and passed every control."
        if run.verdict == "PASS"
        else f"Do not trust audits on this machine: unexpected is {join_names(run.unexpected)}."
    )
    shown, left_out = take_first(sorted(run.results, key=lambda e: e.as_expected), 2 * MAX_ROWS)
    table = Table(
        "Every entry on trial",
        ("name", "kind", "outcome", "tier", "effort", "of", "TV"),
        tuple(_fault_row(entry) for entry in shown),
        numbers=frozenset({4, 6}),
        left_out=left_out,
    )
    return Report(
        command="self-test",
        title="the catalogue of faults and controls",
        verdict=run.verdict,
        ruling=ruling,
        facts=(
            Fact("Faults", f"{caught} of {len(faults)} caught"),
            Fact("Controls", f"{sum(not e.caught for e in controls)} of {len(controls)} passed"),
            Fact("Size", f"gamma up to {run.gamma}, V up to {run.vocab_size}"),
            Fact("Sampled tier", f"alpha {run.alpha:g} each, power .9 against {run.detect:g}"),
        ),
        sections=(
            Section("Entries", (table,)),
            Section("To reproduce", (Command(f"simverify audit --self-test --seed {run.seed}"),)),
        ),
        cases=tuple(
            Case(
                f"{entry.kind} {entry.name}",
                "passed" if entry.as_expected else "failed",
                "" if entry.as_expected else CATCH_WORDS[entry.kind, entry.caught],
            )
            for entry in run.results
        ),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _fault_row(entry: Tried) -> tuple[Cell, ...]:
    return (
        Cell(entry.name),
        Cell(entry.kind),
        Cell(CATCH_WORDS[entry.kind, entry.caught], mark="pass" if entry.as_expected else "fail"),
        Cell(entry.tier),
        Cell(f"{entry.effort:,}", entry.effort),
        Cell(EFFORT_UNITS[entry.tier]),
        optional_cell(entry.tv, "", 3),
    )


def plan_report(run: PlanRun) -> Report:
    """Return the report of a plan, which has no verdict."""
    rows, left_out = take_first(list(zip(run.rows, run.meta.row_seconds, strict=True)), MAX_ROWS)
    table = Table(
        plan_title(run),
        ("test", "level", "deviation", "samples", "of", "time here", "measure"),
        tuple(
            (
                Cell(row.test),
                number_cell(row.level, 2),
                optional_cell(row.deviation, "none", 3),
                optional_cell(row.samples, "none will do", 3),
                Cell(row.unit),
                Cell("" if seconds is None else duration_text(seconds), seconds),
                Cell(row.measure),
            )
            for row, seconds in rows
        ),
        numbers=frozenset({1, 2, 3, 5}),
        left_out=left_out,
    )
    values = {"deviation": run.deviation, "samples": run.samples, "seconds": run.seconds}
    given = values[run.asked]
    command = (
        f"simverify plan --alpha {run.alpha:g} --power {run.power:g} --vocab {run.vocab_size} "
        f"--gamma {run.gamma} --{run.asked} {given:g}"
    )
    return Report(
        command="plan",
        title=plan_title(run),
        verdict=None,
        ruling="A plan: what a claim costs before it is made. It judges nothing.",
        facts=(
            Fact("Size", f"V = {run.vocab_size:,}, gamma = {run.gamma}"),
            Fact("Error rates", f"alpha {run.alpha:g}, power {run.power:g}"),
        ),
        sections=(
            Section("What each test needs", (table, *(Prose(line) for line in plan_basis(run)))),
            Section("To reproduce", (Command(command),)),
        ),
        cases=(),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


# A check against a baseline: lines for the terminal, and Markdown.


_CHECK_WORDS = {"PASS": "no worse", "FAIL": "worse", "INCONCLUSIVE": "too short to tell"}
_OUTCOME_WORDS = {"worse": "WORSE", "better": "better", "too short": "too short", "same": "same"}
_MAX_SWEEP_ITEMS = 40
"""Lines of two sweeps on a terminal."""


def check_lines(check: "Check", name: str, *, verbose: bool = False) -> list[str]:
    """Return what the terminal shows, the verdict first; ``verbose``: all that was held to it."""
    lines = [f"{check.verdict} {name}: {_CHECK_WORDS[check.verdict]}"]
    shown = check.items if verbose else tuple(_notable_items(check))
    most = len(shown) if verbose or check.cells is None else _MAX_SWEEP_ITEMS
    lines += [_item_line(item) for item in shown[:most]]
    if shown[most:]:
        lines.append(f"{len(shown) - most:,} more: --verbose")
    if check.cells is not None:
        subjects = {item.subject for item in check.items if _is_changed(item)}
        lines.append(
            f"{check.cells - len(subjects):,} of {check.cells:,} cells and audits are equal"
        )
    lines += _check_sentences(check)
    return lines + (list(check.notes) if verbose else [])


def check_markdown(check: "Check", name: str) -> str:
    """Return the check as Markdown, for the page of a job."""
    rows = [
        f"| {' | '.join(_escaped_cell(cell) for cell in _item_cells(item))} |"
        for item in check.items
        if item.outcome not in ("same", "shown")
        or (item.what.startswith("E[tau]") and (check.cells is None or item.old != item.new))
    ]
    head = ["| what | baseline | run | difference | |", "| --- | --- | --- | --- | --- |"]
    title = f"## {check.verdict}: baseline {_escaped_cell(name)}, {_CHECK_WORDS[check.verdict]}"
    return (
        "\n".join([title, "", *(head + rows if rows else []), "", *_check_sentences(check)]) + "\n"
    )


def _notable_items(check: "Check") -> Iterator["Item"]:
    """Yield what a reader looks for: of two sweeps, whose cells are many, no equal estimates."""
    if check.cells is not None:
        # What was called something first, then what could not be told: the rest may be long, and
        # is cut short.
        yield from filter(_is_named, check.items)
        yield from check.of("too short")
        for item in check.items:
            notable = _is_named(item) or item.outcome == "too short" or item.what.startswith("Pr(")
            if (_is_changed(item) and not notable) or item.old == item.new == "FAIL":
                yield item
        return
    for item in check.items:
        notable = _is_named(item) or item.outcome == "too short" or item.what.startswith("E[tau]")
        if notable or item.old == item.new == "FAIL":
            yield item


def _is_named(item: "Item") -> bool:
    return item.outcome in ("worse", "better")


def _is_changed(item: "Item") -> bool:
    return _is_named(item) or item.old != item.new


def _item_line(item: "Item") -> str:
    what, old, new, difference, outcome = _item_cells(item)
    tail = f", {difference}" if difference else ""
    return f"{outcome}: {what}: {old} -> {new}{tail}"


def _item_cells(item: "Item") -> tuple[str, str, str, str, str]:
    difference = ""
    if item.low is not None and item.high is not None:
        difference = f"difference {item.low:+.4f} to {item.high:+.4f}"
        if item.pvalue is not None and item.outcome in ("worse", "better"):
            difference += f", p {item.pvalue:.1g}"
    old, new = (_short_number(text) for text in (item.old, item.new))
    detail = "; ".join(part for part in (difference, item.note) if part)
    what = clean_line(f"{item.subject}: {item.what}")
    return what, old, new, detail, _OUTCOME_WORDS.get(item.outcome, item.outcome)


def _short_number(text: str) -> str:
    try:
        return f"{float(text):.4f}" if "." in text and len(text) > 5 else text
    except ValueError:
        return text


def _escaped_cell(text: str) -> str:
    return clean_line(text).replace("|", "\\|").replace("<", "&lt;")


def _check_sentences(check: "Check") -> Iterator[str]:
    if check.blocks is not None:
        whom = "both runs" if check.both else "the run"
        yield f"{check.blocks:,} blocks of {whom} would find a drop of {check.detect:.2%} of E[tau]"
    if check.rate:
        tests = f"{check.tests} tests and both runs' verdicts" if check.tests else "both verdicts"
        yield (
            f"{tests}; where nothing changed, something is called worse or better with "
            f"probability {check.rate:g} at most"
        )

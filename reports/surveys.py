"""Surveys and plans in words: bisection, sweep, self-test, plan, recorded runs, baseline checks."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from simverify import results
from simverify.checks import clean_line
from simverify.history.record import Entry, memory_words
from simverify.reports.view import (
    VERDICT_MARKS,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    Mark,
    On,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import (
    capitalize,
    command_section,
    join_names,
    make_report,
    make_table,
    number_cell,
    pluralize,
    section_of,
    verdict_case,
)

if TYPE_CHECKING:
    from simverify.history.baseline import Check, Item  # scipy.stats takes half a second

# A bisection.


_BISECT_VERDICTS: dict[str, results.Verdict] = {
    "changed": "FAIL",
    "open": "INCONCLUSIVE",
    "unchanged": "PASS",
}
_MAX_SKIPPED = 8


def bisect_report(run: results.BisectRun) -> Report:
    """Return the report of a bisection, which judges no code: what changed may be for the better.

    A server that counts tests is told of a change as a failure.
    """
    head, *rest = bisection_facts(run)
    message = "\n".join((head, *rest))
    return make_report(
        run,
        "bisect",
        f"{run.spec}, {short_version(run, run.good)} to {short_version(run, run.bad)}",
        f"{capitalize(head)}.",
        (
            Fact("Searched", f"{pluralize(len(run.versions), run.source[:-1])} of {run.package}"),
            Fact("Change", "of the distribution" if run.what == "law" else "of the verdict"),
        ),
        _bisect_sections(run, rest),
        [verdict_case(f"bisect {run.spec}", _BISECT_VERDICTS[run.outcome], message)],
        headline=head,
        verdict_last=True,
    )


def _bisect_sections(run: results.BisectRun, rest: list[str]) -> Iterator[Section]:
    order = {version: i for i, version in enumerate(run.versions)}
    tried = sorted(run.tried, key=lambda one: order[one.version])
    visits = Items(tuple(_visit_words(run, one) for one in tried), on=On.TERMINAL)
    yield Section("Audited", (visits, _visit_table(tried)), On.ALL)
    yield from section_of("What changed", rest)
    if run.differences:
        yield Section("The distributions", (_difference_table(run),))
    yield command_section(
        run, Prose("Every version is audited in a place of its own, with the same seed.")
    )


def short_version(run: results.BisectRun, version: str) -> str:
    """Return a release as it is, and a commit's first letters."""
    return version if run.source == "releases" else version[:10]


def _visit_words(run: results.BisectRun, one: results.Visited) -> str:
    outcome: str = one.verdict or one.state
    if one.max_abs_deviation is not None:
        on = pluralize(one.instances, "instance")
        outcome += f", largest deviation {one.max_abs_deviation:.1e} on {on}"
    why = f": {one.reason}" if one.reason else ""
    title = f" ({one.title})" if one.title else ""
    change = {True: "changed", False: "as good", None: "skipped"}[one.changed]
    return f"{short_version(run, one.version)}{title}: {change}; {outcome}{why}"


def bisection_facts(run: results.BisectRun) -> Iterator[str]:
    """Yield what is known of the first version that differs, a fact a line."""
    noun = run.source.removesuffix("s")
    good, bad = short_version(run, run.good), short_version(run, run.bad)
    if run.first is None or run.last is None:
        what = "distribution" if run.what == "law" else "verdict"
        yield (
            f"no change: {bad} of {run.package} has the {what} of {good}, so that there is nothing "
            "to look for in between"
        )
        return
    named = short_version(run, run.first)
    title = next((one.title for one in run.tried if one.version == run.first), "")
    if run.outcome == "changed":
        words = f": {title}" if title else ""
        yield f"{named} is the first {noun} of {run.package} that differs{words}"
    else:
        order = run.versions.index
        between = run.versions[order(run.last) + 1 : order(run.first)]
        yield (
            f"{named} of {run.package} differs, and {short_version(run, run.last)} does not; what "
            f"lies between could not be judged: {_version_names(run, between)}"
        )
    yield f"how: {run.how}"
    if run.lines:
        yield f"line: {join_names(run.lines, 3, 200)}"
    if run.differences:
        yield f"the distribution differs on {pluralize(len(run.differences), 'instance')}"
    if len(run.versions) == 2:
        yield f"no {noun} lies between {good} and {bad}"
    else:
        yield (
            f"audited {len(run.tried)} of {len(run.versions)}; a change that was undone in between "
            "is not seen"
        )
    if run.skipped and run.outcome == "changed":
        yield f"skipped: {_version_names(run, [one.version for one in run.skipped])}"


def _version_names(run: results.BisectRun, versions: Sequence[str]) -> str:
    return join_names([short_version(run, version) for version in versions], _MAX_SKIPPED)


def _difference_table(run: results.BisectRun) -> Table:
    return make_table(
        "Instances on which the distributions differ, the largest difference first",
        "instance | deviation before | after | TV before | after | E[tau] before | after",
        (
            (
                one.instance,
                number_cell(one.before.max_abs_deviation, 3),
                number_cell(one.after.max_abs_deviation, 3),
                number_cell(one.before.tv, 3),
                number_cell(one.after.tv, 3),
                one.before.expected_accepted,
                one.after.expected_accepted,
            )
            for one in run.differences
        ),
        names=frozenset({0}),
    )


def _visit_table(tried: Sequence[results.Visited]) -> Table:
    return make_table(
        "Versions in their order; the others were not asked",
        "version | subject | verdict | differs | deviation | instances | why",
        (
            (
                one.version,
                one.title,
                _outcome_cell(one.verdict, one.state, "open"),
                {True: "yes", False: "no", None: "skipped"}[one.changed],
                number_cell(one.max_abs_deviation, 3),
                one.instances,
                one.reason,
            )
            for one in tried
        ),
        names=frozenset({0}),
        on=On.PAGE,
    )


def _outcome_cell(verdict: results.Verdict | None, state: str, otherwise: Mark) -> Cell:
    """Return a verdict, or what came in its place."""
    short = "INCONCL." if verdict == "INCONCLUSIVE" else None
    return Cell(
        verdict or state, mark=VERDICT_MARKS[verdict] if verdict else otherwise, short=short
    )


# A plan.


def plan_report(run: results.PlanRun) -> Report:
    """Return the report of a plan, which has no verdict."""
    title = _plan_title(run)
    table = make_table(
        title,
        "test | level | deviation | samples | of | time here | measure",
        (
            (
                row.test,
                Cell(f"{row.level:.1e}", row.level),
                number_cell(row.deviation, 3, "none"),
                number_cell(row.samples, 3, "none will do"),
                row.unit if row.samples is not None else None,
                Cell("" if seconds is None else _duration_text(seconds), seconds),
                row.measure,
            )
            for row, seconds in zip(run.rows, run.meta.row_seconds, strict=True)
        ),
        names=frozenset({0}),
        narrow="0:test | 1:level | 2:deviation | 3:samples | 4: | 5:time here",
    )
    tests: dict[str, list[str]] = {}
    for row in run.rows:
        tests.setdefault(row.measure, []).append(row.test)
    measures = tuple(f"{', '.join(names)}: {measure}" for measure, names in tests.items())
    timing = run.meta.timings[0]
    basis = (
        f"Times: {timing.verifier} on {timing.model}, {pluralize(run.meta.threads, 'thread')}, "
        f"everything counted: {timing.blocks_per_second:.3g} blocks a second of "
        f"{run.tokens_per_block:.3g} tokens, timed just now.",
        "Levels are those at the end of a run of four looks that splits alpha over all tests. "
        f"Transitions are counted in {run.contexts} contexts.",
    )
    given = {"deviation": run.deviation, "samples": run.samples, "seconds": run.seconds}[run.asked]
    command = (
        f"simverify plan --alpha {run.alpha:g} --power {run.power:g} --vocab {run.vocab_size} "
        f"--gamma {run.gamma} --{run.asked} {given:g}"
    )
    return make_report(
        run,
        "plan",
        title,
        "A plan: what a claim costs before it is made. It judges nothing.",
        (
            Fact("Size", f"V = {run.vocab_size:,}, gamma = {run.gamma}", On.PAGE),
            Fact("Error rates", f"alpha {run.alpha:g}, power {run.power:g}", On.PAGE),
        ),
        (
            Section(
                "What each test needs",
                (table, Items(measures, on=On.TERMINAL), *map(Prose, basis)),
                On.ALL,
            ),
            Section("To reproduce", (Command(command),)),
        ),
        (),
        headline=title,
    )


def _plan_title(run: results.PlanRun) -> str:
    scale = f"V = {run.vocab_size}, gamma = {run.gamma}, alpha {run.alpha:g}, power {run.power:g}"
    if run.samples is None:
        return f"To find {run.deviation:g}: {scale}"
    budget = f"{run.samples:.3g} tokens"
    if run.seconds is not None:
        budget = f"{run.seconds:g} s here, {budget}"
    return f"What {budget} find: {scale}"


def _duration_text(seconds: float) -> str:
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


# A self-test.


CATCH_WORDS = {
    ("fault", True): "caught",
    ("fault", False): "missed",
    ("control", True): "FALSE ALARM",
    ("control", False): "passed",
}
EFFORT_UNITS = {"exact": "paths", "sampled": "calls", "probe": "probes"}


def self_test_report(run: results.SelfTestRun) -> Report:
    """Return the report of a self-test."""
    faults = [entry for entry in run.results if entry.kind == "fault"]
    controls = [entry for entry in run.results if entry.kind == "control"]
    caught = sum(entry.caught for entry in faults)
    ruling = (
        "The audit is fit for use here: it caught every catalogued fault and passed every control."
        if run.verdict == "PASS"
        else "Do not trust audits on this machine. What came out wrong: "
        f"{join_names(run.unexpected)}."
    )
    table = make_table(
        "Every entry on trial",
        "name | kind | outcome | tier | effort | of | TV",
        (
            (
                entry.name,
                entry.kind,
                Cell(
                    CATCH_WORDS[entry.kind, entry.caught],
                    mark="pass" if entry.as_expected else "fail",
                ),
                entry.tier,
                entry.effort,
                EFFORT_UNITS[entry.tier],
                number_cell(entry.tv, 3),
            )
            for entry in sorted(run.results, key=lambda entry: entry.as_expected)
        ),
        names=frozenset({0}),
    )
    return make_report(
        run,
        "self-test",
        "the catalogue of faults and controls",
        ruling,
        (
            Fact("Faults", f"{caught} of {len(faults)} caught"),
            Fact("Controls", f"{sum(not e.caught for e in controls)} of {len(controls)} passed"),
            Fact("Size", f"gamma up to {run.gamma}, V up to {run.vocab_size}"),
            Fact("Sampled tier", f"alpha {run.alpha:g} each, power .9 against {run.detect:g}"),
        ),
        (
            Section("Entries", (table,), On.ALL),
            Section("To reproduce", (Command(f"simverify audit --self-test --seed {run.seed}"),)),
        ),
        (
            Case(
                f"{entry.kind} {entry.name}",
                "passed" if entry.as_expected else "failed",
                "" if entry.as_expected else CATCH_WORDS[entry.kind, entry.caught],
            )
            for entry in run.results
        ),
        headline=f"{run.verdict}: {ruling}",
        verdict_last=True,
    )


# A sweep.


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


def sweep_report(run: results.SweepRun) -> Report:
    """Return the report of a sweep."""
    verdicts = [cell.result.verdict for cell in run.cells]
    verdicts += [audit.verdict or "INCONCLUSIVE" for audit in run.audits]
    counted = (("failed", "FAIL"), ("without verdict", "INCONCLUSIVE"), ("passed", "PASS"))
    counts = ", ".join(
        f"{verdicts.count(verdict):,} {words}" for words, verdict in counted if verdict in verdicts
    )
    facts = [Fact("Cells and audits", counts, On.PAGE)]
    if run.alpha_each is not None:
        words = (
            f"alpha {run.alpha:g} for all cells together, {run.alpha_each:.3g} each; "
            f"{run.blocks:,} blocks a cell"
        )
        facts.append(Fact("Error rate", words))
    versions = run.versions
    return Report(
        command="sweep",
        title="a sweep",
        verdict=run.verdict,
        ruling=_SWEEP_RULINGS[run.verdict],
        facts=tuple(facts),
        sections=tuple(_sweep_sections(run)),
        cases=tuple(
            verdict_case(name, verdict, "\n".join(words))
            for name, verdict, words in _sweep_outcomes(run)
        ),
        version=versions.simverify,
        started="",
        machine=f"Python {versions.python}, numpy {versions.numpy}",
        seed=run.cells[0].seed if run.cells else run.audits[0].seed,
        headline=f"{run.verdict}: {counts}",
        verdict_last=True,
    )


_SWEEP_RULINGS = {
    "PASS": "Every cell and every audit passed.",
    "FAIL": "Something in this sweep does not emit the target's distribution.",
    "INCONCLUSIVE": "Nothing here is known to be lossy, and not everything has a verdict.",
}


def _sweep_sections(run: results.SweepRun) -> Iterator[Section]:
    if run.cells:
        words = Prose("of best: E[tau] over that of the best rule of its kind.", on=On.PAGE)
        yield Section("The cells", (_cell_table(run.cells), words), On.ALL)
    if run.audits:
        table = make_table(
            "Each audit, in a process of its own",
            "code | gamma | seed | tier | verdict | deviation | why",
            map(_audit_row, run.audits),
            names=frozenset({0}),
            whole=True,
            narrow="0:code | 1:gamma | 2:seed | 3:tier | 4:verdict",
        )
        yield Section("The audits", (table,), On.ALL)
    failures = tuple(
        f"{name}: {'; '.join(words)}"
        for name, verdict, words in _sweep_outcomes(run)
        if verdict != "PASS" and words
    )
    if failures:
        yield Section("What fails", (Items(failures, whole=True),), On.ALL)
    yield Section("To reproduce", (Command(run.reproduce),))


def _cell_table(cells: Sequence[results.SweepCell]) -> Table:
    """Return a table with the columns of which a cell has something to say."""
    rows = [tuple(_sweep_row(cell)) for cell in cells]
    used = [i for i in range(len(_SWEEP_COLUMNS)) if any(row[i].text for row in rows)]
    return make_table(
        "Each cell, judged by itself",
        [_SWEEP_COLUMNS[i] for i in used],
        ([row[i] for i in used] for row in rows),
        names=frozenset({0, 1}),
        whole=True,
    )


def _sweep_row(cell: results.SweepCell) -> Iterator[Cell]:
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
    yield _outcome_cell(row.verdict, "", "")


def _audit_row(audit: results.SweepAudit) -> tuple[Cell | str | int | None, ...]:
    return (
        audit.spec,
        audit.gamma,
        Cell(str(audit.seed), audit.seed),
        audit.tier,
        _outcome_cell(audit.verdict, audit.state, "fail"),
        number_cell(audit.max_abs_deviation, 2),
        audit.reason or "; ".join(finding.text for finding in audit.findings),
    )


def _sweep_outcomes(
    run: results.SweepRun,
) -> Iterator[tuple[str, results.Verdict, tuple[str, ...]]]:
    for cell in run.cells:
        row = cell.result
        yield cell.name, row.verdict, (*row.lossless.findings, *row.acceptance.findings)
    for audit in run.audits:
        words = (audit.reason,) if audit.reason else tuple(x.text for x in audit.findings)
        yield audit.name, audit.verdict or "INCONCLUSIVE", words


# A check against a baseline: lines for the terminal, and Markdown.


_CHECK_WORDS = {"PASS": "no worse", "FAIL": "worse", "INCONCLUSIVE": "too short to tell"}
_MAX_SWEEP_ITEMS = 40
"""Lines of two sweeps on a terminal."""


def check_lines(check: "Check", name: str, *, verbose: bool = False) -> list[str]:
    """Return what the terminal shows, the verdict first; ``verbose``: all that was compared."""
    lines = [f"{check.verdict} {name}: {_CHECK_WORDS[check.verdict]}"]
    shown = check.items if verbose else tuple(_notable_items(check))
    most = len(shown) if verbose or check.cells is None else _MAX_SWEEP_ITEMS
    for item in shown[:most]:
        what, old, new, difference, outcome = _item_cells(item)
        lines.append(f"{outcome}: {what}: {old} -> {new}{difference and f', {difference}'}")
    if shown[most:]:
        lines.append(f"{len(shown) - most:,} more: --verbose")
    if check.cells is not None:
        equal = check.cells - len({item.subject for item in check.items if _is_changed(item)})
        lines.append(f"{equal:,} of {check.cells:,} cells and audits are equal")
    return [*lines, *_check_sentences(check), *(check.notes if verbose else ())]


def check_markdown(check: "Check", name: str) -> str:
    """Return the check as Markdown, for the page of a job."""
    rows = [
        f"| {' | '.join(map(_escaped_cell, _item_cells(item)))} |"
        for item in check.items
        if item.outcome not in ("same", "shown")
        or (item.what.startswith("E[tau]") and (check.cells is None or item.old != item.new))
    ]
    head = ["| what | baseline | run | difference | |", "| --- | --- | --- | --- | --- |"]
    title = f"## {check.verdict}: baseline {_escaped_cell(name)}, {_CHECK_WORDS[check.verdict]}"
    lines = [title, "", *(head + rows if rows else []), "", *_check_sentences(check)]
    return "\n".join(lines) + "\n"


def _notable_items(check: "Check") -> Iterator["Item"]:
    """Yield what a reader looks for: of two sweeps, whose cells are many, no equal estimates."""
    named = [item for item in check.items if item.outcome in ("worse", "better")]
    if check.cells is None:
        for item in check.items:
            notable = item.outcome == "too short" or item.what.startswith("E[tau]")
            if notable or item in named or item.old == item.new == "FAIL":
                yield item
        return
    # What has a name comes first, then what could not be told: the rest may be long, and is cut.
    yield from (*named, *check.of("too short"))
    for item in check.items:
        shown = item in named or item.outcome == "too short" or item.what.startswith("Pr(")
        if (_is_changed(item) and not shown) or item.old == item.new == "FAIL":
            yield item


def _is_changed(item: "Item") -> bool:
    return item.outcome in ("worse", "better") or item.old != item.new


def _item_cells(item: "Item") -> tuple[str, str, str, str, str]:
    details = []
    if item.low is not None and item.high is not None:
        details.append(f"difference {item.low:+.4f} to {item.high:+.4f}")
        if item.pvalue is not None and item.outcome in ("worse", "better"):
            details[0] += f", p {item.pvalue:.1g}"
    if item.note:
        details.append(item.note)
    old, new = map(_short_number, (item.old, item.new))
    outcome = "WORSE" if item.outcome == "worse" else item.outcome
    return clean_line(f"{item.subject}: {item.what}"), old, new, "; ".join(details), outcome


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

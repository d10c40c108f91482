"""A comparison as a report, and as text for a terminal, 80 columns wide."""

import re
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from simverify.checks import clean_line
from simverify.models import DEFAULT_DISTANCE
from simverify.reports.audit_text import pluralize
from simverify.reports.compare_charts import expected_cell, model_blocks
from simverify.reports.compare_text import (
    compare_advice,
    compare_facts,
    coupling_bound_words,
    decoding_line,
    detectable_words,
    model_name,
    model_names,
    model_notes,
    open_reason,
    optimality_gap_words,
    optimum_lines,
    optimum_words,
    reproduce_blocks,
    speedup_table,
    speedup_words,
    tree_load_words,
    tree_words,
    verdict_line,
    verdict_sentence,
)
from simverify.reports.easyspec import groups_section, print_groups
from simverify.reports.view import (
    VERDICT_MARKS,
    VERDICT_STYLES,
    Block,
    Case,
    Cell,
    Items,
    Prose,
    Report,
    Section,
    Table,
    plain_line,
)
from simverify.reports.words import (
    MAX_ITEMS,
    MAX_ROWS,
    certificate_words,
    fault_blocks,
    join_names,
    number_cell,
    suspect_lines,
    take_first,
    tests_table,
)
from simverify.results import CompareResult, CompareRun, Expected, Measured, ModelInfo, Timing

# The report: the verdicts and what they rest on, models with their charts.


MAX_CHARTED_MODELS = 10
"""Models that get charts: a page of more is no longer a page."""

MAX_LISTED_RESULTS = 20
"""Results whose tests are listed one by one, those that failed first."""


_TIER_WORDS = {
    "exact": "exact law, samples",
    "sampled": "samples",
    "output": "emitted tokens",
}


def compare_report(run: CompareRun) -> Report:
    """Return the report of a comparison."""
    return Report(
        command="compare",
        title=f"{join_names(dict.fromkeys(r.verifier for r in run.results))} on "
        f"{model_names(run.models, 4, 24)}",
        verdict=run.verdict,
        ruling=compare_advice(run),
        facts=tuple(compare_facts(run)),
        sections=tuple(_compare_sections(run)),
        cases=tuple(_result_case(run, row) for row in run.results),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _compare_sections(run: CompareRun) -> Iterator[Section]:
    yield Section("Verdicts", tuple(_verdict_blocks(run)))
    drawn = run.models[:MAX_CHARTED_MODELS]
    for i, model in enumerate(drawn):
        rows = [row for row in run.results if row.model == model.name]
        yield Section(
            f"Model {model_name(model, 48)}", tuple(model_blocks(f"m{i}", run, model, rows))
        )
    if more := len(run.models) - len(drawn):
        yield Section(
            "More models",
            (
                Prose(
                    f"{pluralize(more, 'model')} more stand in the tables above and in the run "
                    "file; charts "
                    f"are drawn for the first {MAX_CHARTED_MODELS}."
                ),
            ),
        )
    yield from groups_section(run)
    yield Section("What the verdicts rest on", tuple(_basis_blocks(run)))
    yield Section("To reproduce", tuple(reproduce_blocks(run)))


def _verdict_blocks(run: CompareRun) -> Iterator[Block]:
    findings = [
        f"{row.verifier} on {row.model}: {finding}"
        for row in run.results
        for finding in _result_findings(row)
    ]
    if findings:
        yield Items(*take_first(findings, MAX_ITEMS))
    ordered = sorted(run.results, key=lambda row: row.verdict == "PASS")
    shown, left_out = take_first(ordered, MAX_ROWS)
    yield Table(
        "Verdicts, and distance to the optimum",
        (
            "lossless",
            "as declared",
            "verifier",
            "model",
            "E[tau]",
            "by",
            "measured",
            "99.9% interval",
            "block efficiency",
            "gap to optimum",
            "predicted speed-up",
            "rests on",
        ),
        tuple(_verdict_row(row) for row in shown),
        numbers=frozenset({4, 6, 7, 8, 9, 10}),
        names=frozenset({2, 3}),
        left_out=left_out,
    )
    if words := optimum_words(run):
        yield Prose(words)
    for words in tree_load_words(run):
        yield Prose(words)


def _verdict_row(row: CompareResult) -> tuple[Cell, ...]:
    low, high = row.measured.ci_low, row.measured.ci_high
    return (
        Cell(row.lossless.verdict, mark=VERDICT_MARKS[row.lossless.verdict]),
        Cell(row.acceptance.verdict, mark=VERDICT_MARKS[row.acceptance.verdict])
        if row.acceptance.tests
        else Cell("not judged"),
        Cell(row.verifier),
        Cell(row.model),
        expected_cell(row.expected_accepted),
        Cell(row.expected_accepted.method),
        number_cell(row.measured.mean, 5),
        Cell(f"{low:.5g} to {high:.5g}", high - low),
        number_cell(row.block_efficiency, 5),
        Cell(optimality_gap_words(row), 1 - row.optimality),
        Cell(f"{row.speedup.predicted:.3g}x", row.speedup.predicted),
        Cell(_TIER_WORDS[row.lossless.tier] if row.lossless.tests else "exact law"),
    )


def _basis_blocks(run: CompareRun) -> Iterator[Block]:
    shown, left_out = take_first(run.results, MAX_ROWS)
    yield Table(
        "Exact checks, power and certificates",
        ("verifier", "model", "exact law", "lossless", "acceptance", "certificate"),
        tuple(
            (
                Cell(row.verifier),
                Cell(row.model),
                _exact_cell(row),
                Cell(detectable_words(row.lossless.detectable), row.lossless.detectable),
                _acceptance_cell(row),
                Cell(
                    certificate_words(row.lossless.certificate)
                    if row.lossless.certificate
                    else "none"
                ),
            )
            for row in shown
        ),
        names=frozenset({0, 1}),
        folded=True,
        left_out=left_out,
    )
    ordered = sorted(run.results, key=lambda row: row.verdict == "PASS")[:MAX_LISTED_RESULTS]
    for row in ordered:
        for line in suspect_lines(row.lossless.localisation, row.lossless.faults):
            yield Prose(f"{row.verifier} on {row.model}: {line}.")
        if row.verdict != "PASS" and row.lossless.faults is not None:
            yield from fault_blocks(row.lossless.faults)
    refuted = {row.lossless.faults.refuted for row in run.results if row.lossless.faults}
    names = dict.fromkeys(fault.fault for every in refuted for fault in every)
    if names:
        yield Prose(
            f"Catalogued faults refuted somewhere in this run: {join_names(sorted(names), 60)}."
        )
    tests = [
        (f"{row.verifier} on {row.model}", test)
        for row in ordered
        for test in (*row.lossless.tests, *row.acceptance.tests)
    ]
    what = "Sampled tests of the kernels" if run.decoding is None else "Tests of the emitted tokens"
    yield tests_table(what, tests)
    if more := len(run.results) - len(ordered):
        yield Prose(f"The tests of {pluralize(more, 'result')} more stand in the run file.")


def _acceptance_cell(row: CompareResult) -> Cell:
    part = row.acceptance
    if not part.tests:
        return Cell(part.words)
    return Cell(
        f"{part.words}; {detectable_words(part.detectable)}", mark=VERDICT_MARKS[part.verdict]
    )


def _exact_cell(row: CompareResult) -> Cell:
    exact = row.lossless.exact
    if exact is None:
        real = row.lossless.tier == "output"
        return Cell("none of real models" if real else "too large to write out")
    return Cell(
        f"{exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}", exact.tv
    )


def _result_case(run: CompareRun, row: CompareResult) -> Case:
    name = f"{row.verifier} on {row.model}"
    if row.verdict == "FAIL":
        return Case(name, "failed", "; ".join(_result_findings(row)))
    if row.verdict == "INCONCLUSIVE":
        return Case(name, "inconclusive", open_reason(run, row))
    return Case(name, "passed")


def _result_findings(row: CompareResult) -> list[str]:
    strange = f"{row.acceptance.words}: "
    return [*row.lossless.findings, *(strange + finding for finding in row.acceptance.findings)]


# The basis of a comparison's table, in lines for a terminal.


METHOD_WORDS = {
    "enumeration": ("enum", "every drafted block, or every step down a tree, enumerated"),
    "closed-form": ("form", "closed form"),
    "dp": ("dp", "certified dynamic programme"),
    "measured": ("-", "not known: what is measured stands alone"),
    "rao-blackwell": ("r-b", "Rao-Blackwell over drafted blocks"),
}
"""Ways to an exact E[tau]: the word in the table, and what it stands for."""

MIN_LONG_FRACTION = 20
"""Characters of a fraction from which on it is left out."""


def run_promise(run: CompareRun) -> str:
    """Return what the whole run promises: its false-alarm rate, and what it finds where."""
    models: dict[str, list[str]] = {}
    for row in run.results:
        names = models.setdefault(row.lossless.deviation, [])
        if row.model not in names:
            names.append(row.model)
    deviations = [
        deviation + (f" ({', '.join(names)})" if len(models) > 1 else "")
        for deviation, names in models.items()
    ]
    # The second verdict of a row, on its acceptance, waits for the same power.
    deviations += dict.fromkeys(
        row.acceptance.deviation for row in run.results if row.acceptance.tests
    )
    return (
        f"Seed {run.seed}. If every verifier here is right, a run reports a fault with "
        f"probability {run.alpha:g} at most. Found with probability {run.power:g} from "
        f"{run.detect:g} on, or the verdict is INCONCLUSIVE: {'; '.join(deviations)}."
    )


def method_lines(rows: Sequence[CompareResult]) -> list[str]:
    """Return a line for each way in which the table's exact E[tau] was found."""
    lines = []
    for method, (short, words) in METHOD_WORDS.items():
        used = [row.expected_accepted for row in rows if row.expected_accepted.method == method]
        if not used:
            continue
        line = f"{short}: {words}"
        if method == "dp":
            width = max(expected.upper - expected.lower for expected in used)
            line += f", bounds {width:.0e} apart"
        elif used[0].confidence is not None and method != "measured":
            line += f", {used[0].confidence:.1%} interval"
        lines.append(line)
    fractions = [
        f"{row.verifier} {row.expected_accepted.fraction}"
        for row in rows
        if row.expected_accepted.fraction
        and len(row.expected_accepted.fraction) < MIN_LONG_FRACTION
    ]
    if fractions:
        lines.append(f"E[tau]: {', '.join(fractions)}")
    return lines


def verdict_basis_lines(rows: Sequence[CompareResult]) -> list[str]:
    """Return what the losslessness verdicts rest on: the rules' laws, then the kernels' samples."""
    scopes: dict[str, list[str]] = {}
    for row in rows:
        if (exact := row.lossless.exact) is not None:
            key = f"exact, {exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}"
            scopes.setdefault(key, []).append(row.verifier)
    lines = [f"{', '.join(names)}: {scope}" for scope, names in scopes.items()]
    tests = [len(row.lossless.tests) for row in rows]
    tokens = [max((test.n for test in row.lossless.tests), default=0) for row in rows]
    decoded = any(row.lossless.tier == "output" for row in rows)
    what = "emitted tokens judged" if decoded else "kernels sampled"
    lines.append(
        f"{what}: {_range_text(tests, 'd')} tests on {_range_text(tokens, '.1e')} tokens each"
    )
    lines += _refuted_fault_lines(rows)
    main = [(row.lossless.deviation, row.lossless.detectable) for row in rows]
    beside = [(power.deviation, power.detectable) for row in rows for power in row.lossless.beside]
    lines += [*_power_lines(main), *(f"beside it: {power}" for power in _power_lines(beside))]
    bounds: dict[tuple[float, str | None], list[float]] = {}
    for row in rows:
        if (certificate := row.lossless.certificate) is not None:
            terms = certificate.delta, certificate.assumption
            bounds.setdefault(terms, []).append(certificate.bound)
    lines += [
        f"certified at {1 - delta:.1%}: mean one-token TV at most {_range_text(found, '.4f')}, if "
        f"{assumption}"
        for (delta, assumption), found in bounds.items()
    ]
    return lines + _acceptance_lines(rows)


def _refuted_fault_lines(rows: Sequence[CompareResult]) -> list[str]:
    """How many of the named faults each verifier's tokens refute."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if (faults := row.lossless.faults) is not None:
            number = len(faults.refuted)
            count = f"{number} of {number + len(faults.not_refuted)}"
            groups.setdefault(count, []).append(row.verifier)
    parts = [f"{', '.join(names)} {count}" for count, names in groups.items()]
    return [f"named faults refuted: {'; '.join(parts)}"] if parts else []


def _acceptance_lines(rows: Sequence[CompareResult]) -> list[str]:
    """Whether the kernels accept as their rules do, which losslessness does not rest on."""
    groups: dict[str, list[CompareResult]] = {}
    for row in rows:
        groups.setdefault(row.acceptance.words, []).append(row)
    lines = []
    for words, group in groups.items():
        judged = [row.acceptance for row in group if row.acceptance.tests]
        powers = _power_lines([(part.deviation, part.detectable) for part in judged])
        names = ", ".join(row.verifier for row in group)
        lines.append(f"{names}: {'; '.join([words, *powers])}")
    return lines


def _power_lines(found: list[tuple[str, float | None]]) -> list[str]:
    """Return for each kind of deviation the size from which on all of its tests find it."""
    sizes: dict[str, list[float | None]] = {}
    for deviation, size in found:
        sizes.setdefault(deviation, []).append(size)
    return [
        f"{deviation}: not found at any size"
        if None in every
        else f"{deviation}: power .9 from {max(x for x in every if x is not None):.4f} on"
        for deviation, every in sizes.items()
    ]


def _range_text(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


_SPEEDUP_HEADERS = (
    "\nverifier",
    "\nmeasured",
    "predicted\nc={:g}",
    "predicted\nown c",
    "own\nc",
    "block\ncost",
    "a\ntoken",
    "\ndraft",
    "\ntarget",
    "\nverify",
)


def real_pair_lines(run: CompareRun, rows: Sequence[CompareResult]) -> Iterator[str]:
    """Yield lines of text; none for a simulated model."""
    for row in rows:
        if (paired := row.paired) is not None:
            half = (paired.ci_high - paired.ci_low) / 2
            yield (
                f"on the {paired.blocks:,} drafted blocks of {paired.baseline}, E[tau] of "
                f"{row.verifier} less {paired.baseline}'s: {paired.difference:+.4f}"
                f"\N{PLUS-MINUS SIGN}{half:.4f}"
            )
    if run.decoding is not None:
        for row in rows:
            shares = " ".join(f"{share:.2f}" for share in row.acceptance_ccdf.measured)
            yield f"{row.verifier} keeps l tokens or more, l = 1 to {run.gamma}: {shares}"


def speedup_times(run: CompareRun, model: str) -> tuple[str, RichTable] | None:
    """Return the caption and the table of the speed-ups on a model, if it was timed."""
    speedups = speedup_table(run, model)
    if speedups is None:
        return None
    table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for i, header in enumerate(_SPEEDUP_HEADERS):
        words = header.format(run.results[0].speedup.cost_ratio)
        table.add_column(Text(words), justify="right" if i else "left", no_wrap=True)
    for row in speedups.rows:
        table.add_row(*(plain_line(cell.text) for cell in row))
    return speedups.caption, table


# The table on a terminal.


_MAX_NAME_LINE = 13
"""Characters of a rule's name on a line of the terminal's table."""

_MAX_PLAIN_NAME = 17
"""Characters of a name without hyphens that fit beside all numbers."""

_NAME_PIECES = re.compile(r"[^-_:.]{0,12}[-_:.]|[^-_:.]{1,13}")
"""What of a name stays on one line."""


def print_comparison(run: CompareRun, console: Console, *, verbose: bool = False) -> None:
    """Print the tables of a comparison and the verdict; ``verbose``: all that they rest on."""
    speeds = {(timing.model, timing.verifier): timing for timing in run.meta.timings}
    for model in run.models:
        rows = [row for row in run.results if row.model == model.name]
        console.print(plain_line(_model_title(run, model), "bold"))
        console.print(_model_table(rows, speeds, verbose=verbose))
        if verbose:
            _print_basis(run, model, rows, console)
        else:
            failed = any(row.verdict == "FAIL" for row in rows)
            for words in model_notes(run, model, rows):
                console.print(plain_line(words, VERDICT_STYLES["FAIL"] if failed else "dim"))
        if any(row.calls for row in rows):
            console.print(_after_calls_table(rows))
            if any(entry.exact is None for row in rows for entry in row.calls):
                console.print(plain_line("no exact number of tokens: shown, not judged", "dim"))
        console.print()
    if run.layer_parallel:
        print_groups(run, console, verbose=verbose)
    if verbose:
        console.print(plain_line(run_promise(run)))
    words = verdict_line(run) if verbose else verdict_sentence(run)
    console.print(plain_line(words, VERDICT_STYLES[run.verdict]))


def _print_basis(
    run: CompareRun, model: ModelInfo, rows: list[CompareResult], console: Console
) -> None:
    """Print what one model's table rests on, and all that failed."""
    for words in [*method_lines(rows), *verdict_basis_lines(rows)]:
        console.print(plain_line(words, "dim"))
    if run.decoding is not None:
        console.print(plain_line(decoding_line(run.decoding), "dim"))
        console.print(plain_line(optimum_words(run), "dim"))
    where = coupling_bound_words(model.bounds)
    for words in optimum_lines(rows):
        console.print(plain_line(words, "dim"))
    bound = _expected_number(model.bounds.coupling)
    console.print(plain_line(f"coupling bound on one iteration{where}: {bound}"))
    failed, more = take_first([words for row in rows for words in _failure_lines(row)], MAX_ITEMS)
    for words in failed:
        console.print(plain_line(words, VERDICT_STYLES["FAIL"]))
    if more:
        console.print(f"{more:,} lines more stand in the run file")
    for words in real_pair_lines(run, rows):
        console.print(plain_line(words))
    if (timing := speedup_times(run, model.name)) is not None:
        caption, table = timing
        console.print(plain_line(caption))
        console.print(table)
    for words in speedup_words(run, model.name):
        console.print(plain_line(words, "dim"))


def _failure_lines(row: CompareResult) -> Iterator[str]:
    for finding in row.lossless.findings:
        yield f"FAIL {row.verifier}: {finding}"
    for words in suspect_lines(row.lossless.localisation, row.lossless.faults):
        yield f"{row.verifier}: {words}"
    for finding in row.acceptance.findings:
        yield f"FAIL {row.verifier}, {row.acceptance.words}: {finding}"


def _model_title(run: CompareRun, model: ModelInfo) -> str:
    title = f"{model.name}: V = {model.vocab_size}, gamma = {run.gamma}"
    if run.drafting is not None:
        title += f", {tree_words(run.drafting)}"
    if model.target_perplexity is not None and model.draft_perplexity is not None:
        title += (
            f", perplexity {model.target_perplexity:.2f} target {model.draft_perplexity:.2f} draft"
        )
    if model.draft_distance is not None and model.draft_distance != DEFAULT_DISTANCE:
        title += f", draft distance {model.draft_distance:g}"
    if model.temperature is not None and model.temperature != 1.0:
        title += f", temperature {model.temperature:g}"
    return title


def _model_table(
    rows: list[CompareResult], speeds: dict[tuple[str, str], Timing], *, verbose: bool
) -> RichTable:
    table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    # Real models are a million times slower than tables.
    unit, per = ("calls\n/s", 1.0) if _has_decoding(rows) else ("Mblk\n/s", 1e6)
    table.add_column(Text("\nverifier"), no_wrap=True)
    table.add_column(Text("\nlossless"), no_wrap=True)
    by = ("\nby",) if verbose else ()  # the lines that say what it means come with it
    for header in (
        "\nE[tau]",
        *by,
        "measured\n99.9%",
        "block\neff.",
        "of\nopt.",
        "speed\n-up",
        unit,
    ):
        table.add_column(Text(header), justify="right", no_wrap=True)
    for row in rows:
        verdict = row.lossless.verdict
        speed = speeds[row.model, row.verifier].blocks_per_second / per
        tier = "" if verdict == "INCONCLUSIVE" else f" {row.lossless.tier}"
        table.add_row(
            # The folder of someone's own rule would leave no room for numbers.
            Text(fold_name(clean_line(row.verifier.rpartition("/")[2]))),
            Text(verdict + tier, style=VERDICT_STYLES[verdict]),
            _expected_text(row.expected_accepted),
            *((METHOD_WORDS[row.expected_accepted.method][0],) if verbose else ()),
            _interval_text(row.measured),
            _fixed_point(row.block_efficiency, 3),
            _optimality_text(row),
            _fixed_point(row.speedup.predicted, 2) + "x",
            # The sums of a trace were made while it was recorded.
            _speed_text(speed) if _has_kernel_speed(row, speed) else "-",
        )
    return table


def fold_name(name: str) -> str:
    """Return a rule's name on as many lines as it takes, folded behind its hyphens and the like."""
    if len(name) <= (_MAX_NAME_LINE if "-" in name else _MAX_PLAIN_NAME):
        return name
    lines = [""]
    for piece in _NAME_PIECES.findall(name):
        if lines[-1] and len(lines[-1]) + len(piece) > _MAX_NAME_LINE:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _optimality_text(row: CompareResult) -> str:
    """Return the share of the optimum that a rule reaches, or the least that it can be."""
    sign = "\N{GREATER-THAN OR EQUAL TO}" if row.optimum.bound else ""
    return f"{sign}{row.optimality:.1%}"


def _speed_text(speed: float) -> str:
    # Code that is called stands beside compiled kernels.
    return "<0.1" if 0.0 < speed < 0.05 else _fixed_point(speed, 1)


def _has_kernel_speed(row: CompareResult, speed: float) -> bool:
    # A readable rule that was judged by its law alone has no tests, and no speed to speak of.
    return bool(row.lossless.tests) and (speed > 0.0 or not _has_decoding([row]))


def _has_decoding(rows: list[CompareResult]) -> bool:
    return all(row.lossless.tier == "output" for row in rows)


def _fixed_point(value: float, decimals: int) -> str:
    # From 10 on one decimal less, so that the widest row still fits 80 columns.
    return f"{value:.{decimals if value < 10 else decimals - 1}f}"


def _interval_text(measured: Measured) -> str:
    decimals = 4 if measured.ci_high < 10 else 3
    above, below = measured.ci_high - measured.mean, measured.mean - measured.ci_low
    # An interval that its range cuts off has no half width.
    if round(above, decimals) != round(below, decimals):
        return f"{measured.ci_low:.{decimals}f}..{measured.ci_high:.{decimals}f}"
    return f"{measured.mean:.{decimals}f}±{above:.{decimals}f}"


def _expected_text(expected: Expected) -> str:
    if expected.method == "measured":
        return "-"  # what is known of it is what was measured, in the next column
    if expected.method == "counting":
        return f"at most {_fixed_point(expected.upper, 7)}"
    if expected.exact is not None:
        return _fixed_point(expected.exact, 7)
    half = (expected.upper - expected.lower) / 2
    middle = (expected.lower + expected.upper) / 2
    if expected.lower == 0.0 and expected.method == "rao-blackwell":
        return f"0 to {expected.upper:.3f}"  # its middle says nothing
    decimals = 3 if middle < 10 else 2
    return f"{middle:.{decimals}f}±{half:.{decimals}f}"


def _expected_number(expected: Expected) -> str:
    return _expected_text(expected) + (f" = {expected.fraction}" if expected.fraction else "")


def _after_calls_table(rows: list[CompareResult]) -> RichTable:
    table = RichTable(box=None, padding=(0, 2, 0, 0))
    table.add_column("calls", justify="right")
    table.add_column("verifier")
    table.add_column("tokens out, exact", justify="right")
    table.add_column("measured, 99.9%", justify="right")
    last = len(rows[0].calls)
    shown = [i for i in (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000) if i < last] + [last]
    for i in shown:
        for row in rows:
            entry = row.calls[i - 1]
            exact = "" if entry.exact is None else f"{entry.exact:.6f}"
            if entry.fraction and len(entry.fraction) < MIN_LONG_FRACTION:
                exact += f" = {entry.fraction}"
            table.add_row(
                str(i), plain_line(row.verifier), plain_line(exact), _interval_text(entry.measured)
            )
    return table

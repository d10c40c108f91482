"""A comparison as a report."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from simverify import results
from simverify.checks import clean_line
from simverify.models import DEFAULT_DISTANCE
from simverify.reports import compare_text
from simverify.reports.compare_charts import expected_cell, model_blocks
from simverify.reports.easyspec import groups_section
from simverify.reports.view import (
    VERDICT_MARKS,
    Block,
    Cell,
    Items,
    On,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import (
    certificate_words,
    fault_blocks,
    join_names,
    make_report,
    make_table,
    number_cell,
    pluralize,
    suspect_facts,
    tests_table,
    verdict_case,
)

MAX_CHARTED_MODELS = 10
"""Models that get charts: a page of more is no longer a page."""

MAX_LISTED_RESULTS = 20
"""Results whose tests are listed one by one, those that failed first."""

MIN_LONG_FRACTION = 20
"""Characters of a fraction from which on it is left out."""


_METHOD_WORDS = {
    "enumeration": "every drafted block, or every step down a tree, enumerated",
    "closed-form": "closed form",
    "dp": "certified dynamic programme",
    "measured": "not known: what is measured stands alone",
    "rao-blackwell": "Rao-Blackwell over drafted blocks",
    "linear-programme": "linear programme",
    "counting": "counted",
}
"""Ways to an exact E[tau]."""


def compare_report(run: results.CompareRun) -> Report:
    """Return the report of a comparison."""
    names = join_names(dict.fromkeys(row.verifier for row in run.results))
    return make_report(
        run,
        "compare",
        f"{names} on {compare_text.model_names(run.models, 4, 24)}",
        compare_text.compare_advice(run),
        compare_text.compare_facts(run),
        _compare_sections(run),
        (
            verdict_case(
                _result_name(row),
                row.verdict,
                "; ".join(_result_findings(row))
                if row.verdict == "FAIL"
                else compare_text.open_reason(run, row),
            )
            for row in run.results
        ),
        headline=compare_text.verdict_sentence(run),
        verdict_last=True,
    )


def _compare_sections(run: results.CompareRun) -> Iterator[Section]:
    yield Section("Verdicts", tuple(_verdict_blocks(run)))
    for i, model in enumerate(run.models):
        rows = [row for row in run.results if row.model == model.name]
        failures = (
            f"FAIL {row.verifier}: {finding}" for row in rows for finding in _result_findings(row)
        )
        blocks: list[Block] = [
            _verdict_table(run, rows, On.TERMINAL),
            Items(tuple(compare_text.model_notes(run, model, rows)), on=On.SHORT),
            Items(tuple(failures), on=On.VERBOSE),
            *model_blocks(f"m{i}", run, model, rows),
            *_call_blocks(rows),
        ]
        on = On.ALL if i < MAX_CHARTED_MODELS else On.TERMINAL
        yield Section(_model_title(run, model), tuple(blocks), on, indent=0)
    if (more := len(run.models) - MAX_CHARTED_MODELS) > 0:
        words = (
            f"{pluralize(more, 'model')} more stand in the tables above and in the run file; "
            f"charts are drawn for the first {MAX_CHARTED_MODELS}."
        )
        yield Section("More models", (Prose(words),))
    yield from groups_section(run)
    yield Section("What the verdicts rest on", tuple(_basis_blocks(run)), On.DETAIL)
    yield Section("To reproduce", tuple(compare_text.reproduce_blocks(run)))


def _verdict_blocks(run: results.CompareRun) -> Iterator[Block]:
    findings = [
        f"{_result_name(row)}: {finding}"
        for row in run.results
        for finding in _result_findings(row)
    ]
    if findings:
        yield Items(tuple(findings))
    yield _verdict_table(run, sorted(run.results, key=lambda row: row.verdict == "PASS"), On.PAGE)


def _verdict_table(run: results.CompareRun, rows: Sequence[results.CompareResult], on: On) -> Table:
    """Return the verdicts with their numbers: of all models on pages, of one on a terminal."""
    # Real models are a million times slower than tables.
    decoded = all(row.lossless.tier == "output" for row in rows)
    unit, per = ("calls", 1.0) if decoded else ("Mblk", 1e6)
    timings = run.meta.timings
    speeds = {(one.model, one.verifier): one.blocks_per_second / per for one in timings}
    return make_table(
        "Verdicts, and distance to the optimum",
        "lossless | as declared | verifier | model | E[tau] | measured, 99.9% interval | "
        f"block efficiency | gap to optimum | predicted speed-up | {unit} a second",
        (_verdict_row(row, speeds[row.model, row.verifier], decoded) for row in rows),
        "2:\nverifier | 0:\nlossless | 4:\nE[tau] | 5:measured\n99.9% | 6:block\neff. | "
        f"7:of\nopt. | 8:\nspeed-up | 9:{unit}\n/s",
        names=frozenset({2, 3}) if on == On.PAGE else frozenset(),
        on=on,
    )


def _verdict_row(row: results.CompareResult, speed: float, decoded: bool) -> Iterator[Cell | str]:
    verdict, acceptance = row.lossless.verdict, row.acceptance.verdict
    tier = "" if verdict == "INCONCLUSIVE" else f" {row.lossless.tier}"
    yield Cell(verdict + tier, mark=VERDICT_MARKS[verdict])
    judged = Cell(acceptance, mark=VERDICT_MARKS[acceptance])
    yield judged if row.acceptance.tests else "not judged"
    # The folder of someone's own rule would leave no room for numbers.
    yield Cell(row.verifier, short=fold_name(clean_line(row.verifier.rpartition("/")[2])))
    yield row.model
    expected, measured = row.expected_accepted, row.measured
    yield replace(expected_cell(expected), short=_expected_text(expected))
    yield Cell(_interval_text(measured), measured.mean)
    efficiency = row.block_efficiency
    yield replace(number_cell(efficiency, 5), short=_fixed_point(efficiency, 3))
    sign = "\N{GREATER-THAN OR EQUAL TO}" if row.optimum.bound else ""
    share = f"{sign}{row.optimality:.1%}"
    yield Cell(compare_text.optimality_gap_words(row), 1 - row.optimality, short=share)
    predicted = row.speedup.predicted
    yield Cell(f"{predicted:.3g}x", predicted, short=f"{_fixed_point(predicted, 2)}x")
    # A rule that was judged by its law alone has no tests, and no speed to speak of; the sums of a
    # trace were made while it was recorded. Code that is called stands beside compiled kernels.
    timed = row.lossless.tests and (speed > 0.0 or not decoded)
    shown = "<0.1" if 0.0 < speed < 0.05 else _fixed_point(speed, 1)
    yield Cell(shown, speed) if timed else Cell("-", 0.0)


def _basis_blocks(run: results.CompareRun) -> Iterator[Block]:
    yield make_table(
        "Exact checks, power and certificates",
        (
            "result | E[tau] by | exact distribution | lossless | acceptance | "
            "named faults refuted | certificate"
        ),
        map(_basis_row, run.results),
        names=frozenset({0}),
        folded=True,
        listed=True,
    )
    if words := compare_text.optimum_words(run):
        yield Prose(words)
    yield from map(Prose, compare_text.tree_load_words(run))
    ordered = sorted(run.results, key=lambda row: row.verdict == "PASS")[:MAX_LISTED_RESULTS]
    for row in ordered:
        for name, words in suspect_facts(row.lossless.localisation, row.lossless.faults):
            yield Prose(f"{_result_name(row)}: {name.lower()}: {words}.")
        if row.verdict != "PASS" and row.lossless.faults is not None:
            yield from fault_blocks(row.lossless.faults)
    refuted = {row.lossless.faults.refuted for row in run.results if row.lossless.faults}
    names = dict.fromkeys(fault.fault for every in refuted for fault in every)
    if names:
        words = join_names(sorted(names), 60)
        yield Prose(f"Catalogued faults refuted somewhere in this run: {words}.")
    tests = [
        (_result_name(row), test)
        for row in ordered
        for test in (*row.lossless.tests, *row.acceptance.tests)
    ]
    what = "Sampled tests of the kernels" if run.decoding is None else "Tests of the emitted tokens"
    yield replace(tests_table(what, tests), on=On.PAGE)
    if more := len(run.results) - len(ordered):
        words = f"The tests of {pluralize(more, 'result')} more stand in the run file."
        yield Prose(words, on=On.PAGE)


def _basis_row(row: results.CompareResult) -> Iterator[Cell | str]:
    expected, lossless, acceptance = row.expected_accepted, row.lossless, row.acceptance
    yield _result_name(row)
    words = _METHOD_WORDS[expected.method]
    if expected.method == "dp":
        words += f", bounds {expected.upper - expected.lower:.0e} apart"
    elif expected.confidence is not None and expected.method != "measured":
        words += f", {expected.confidence:.1%} interval"
    yield words + (f": {expected.fraction}" if _is_short(expected.fraction) else "")
    if (exact := lossless.exact) is not None:
        yield f"{exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}"
    else:
        yield "none of real models" if lossless.tier == "output" else "too large to write out"
    yield "; beside it: ".join([_power_words(lossless), *map(_power_words, lossless.beside)])
    if acceptance.tests:
        words = f"{acceptance.words}; {_power_words(acceptance)}"
        yield Cell(words, mark=VERDICT_MARKS[acceptance.verdict])
    else:
        yield acceptance.words
    if (faults := lossless.faults) is None:
        yield ""
    else:
        number = len(faults.refuted)
        yield f"{number} of {number + len(faults.not_refuted)}"
    yield certificate_words(lossless.certificate) if lossless.certificate else "none"


def _power_words(part: results.Lossless | results.Acceptance | results.Power) -> str:
    """Return from which size on a kind of deviation is found."""
    return f"{part.deviation}: {compare_text.detectable_words(part.detectable)}"


def _is_short(fraction: str | None) -> bool:
    return fraction is not None and len(fraction) < MIN_LONG_FRACTION


def _result_name(row: results.CompareResult) -> str:
    return f"{row.verifier} on {row.model}"


def _result_findings(row: results.CompareResult) -> list[str]:
    strange = f"{row.acceptance.words}: "
    return [*row.lossless.findings, *(strange + finding for finding in row.acceptance.findings)]


# One model on a terminal: its verdicts, and what they rest on.


_MAX_NAME_LINE = 13
"""Characters of a rule's name on a line of the terminal's table."""

_MAX_PLAIN_NAME = 17
"""Characters of a name without hyphens that fit beside all numbers."""

_NAME_PIECES = re.compile(r"[^-_:.]{0,12}[-_:.]|[^-_:.]{1,13}")
"""What of a name stays on one line."""


def _model_title(run: results.CompareRun, model: results.ModelInfo) -> str:
    title = f"{model.name}: V = {model.vocab_size}, gamma = {run.gamma}"
    if run.drafting is not None:
        title += f", {compare_text.tree_words(run.drafting)}"
    if model.target_perplexity is not None and model.draft_perplexity is not None:
        title += (
            f", perplexity {model.target_perplexity:.2f} target {model.draft_perplexity:.2f} draft"
        )
    if model.draft_distance is not None and model.draft_distance != DEFAULT_DISTANCE:
        title += f", draft distance {model.draft_distance:g}"
    if model.temperature is not None and model.temperature != 1.0:
        title += f", temperature {model.temperature:g}"
    return title


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


def _fixed_point(value: float, decimals: int) -> str:
    # From 10 on one decimal less, so that the widest row still fits 80 columns.
    return f"{value:.{decimals if value < 10 else decimals - 1}f}"


def _interval_text(measured: results.Measured) -> str:
    decimals = 4 if measured.ci_high < 10 else 3
    above, below = measured.ci_high - measured.mean, measured.mean - measured.ci_low
    # An interval that its range cuts off has no half width.
    if round(above, decimals) != round(below, decimals):
        return f"{measured.ci_low:.{decimals}f}..{measured.ci_high:.{decimals}f}"
    return f"{measured.mean:.{decimals}f}±{above:.{decimals}f}"


def _expected_text(expected: results.Expected) -> str:
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


def _call_blocks(rows: Sequence[results.CompareResult]) -> Iterator[Block]:
    """Yield the tokens out after calls: all on pages, a few on a terminal."""
    last = max((len(row.calls) for row in rows), default=0)
    if not last:
        return
    few = [i for i in (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000) if i < last] + [last]
    yield _calls_table([(row, row.calls[i - 1]) for i in few for row in rows], On.TERMINAL)
    yield _calls_table([(row, entry) for row in rows for entry in row.calls], On.PAGE)
    if any(entry.exact is None for row in rows for entry in row.calls):
        yield Prose("no exact number of tokens: shown, not judged", on=On.TERMINAL)


def _calls_table(
    entries: Sequence[tuple[results.CompareResult, results.AfterCalls]], on: On
) -> Table:
    return make_table(
        "Tokens out after calls",
        "verifier | calls | exact | measured | from | to",
        (
            (
                row.verifier,
                entry.calls,
                replace(number_cell(entry.exact, 8, "shown, not judged"), short=_calls_text(entry)),
                replace(number_cell(entry.measured.mean, 6), short=_interval_text(entry.measured)),
                number_cell(entry.measured.ci_low, 6),
                number_cell(entry.measured.ci_high, 6),
            )
            for row, entry in entries
        ),
        names=frozenset({0}),
        folded=True,
        narrow="1:calls | 0:verifier | 2:tokens out, exact | 3:measured, 99.9%",
        on=on,
    )


def _calls_text(entry: results.AfterCalls) -> str:
    exact = "" if entry.exact is None else f"{entry.exact:.6f}"
    return f"{exact} = {entry.fraction}" if _is_short(entry.fraction) else exact

"""A comparison as a report: the verdicts and what they rest on, models with their charts."""

from collections.abc import Iterator

from simverify.reports.audit.found import count
from simverify.reports.compare.decoded import optimum_words
from simverify.reports.compare.grouped.names import model_name, model_names
from simverify.reports.compare.grouped.section import groups_section
from simverify.reports.compare.model_blocks import expected_cell, model_blocks
from simverify.reports.compare.reproduce import reproduce_blocks
from simverify.reports.compare.trees import gap_words, load_words
from simverify.reports.compare.words import compare_facts, found_from, reason, ruling
from simverify.reports.faults import fault_blocks, suspicion
from simverify.reports.view import (
    MARKS,
    Block,
    Case,
    Cell,
    Items,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import (
    MOST_ITEMS,
    MOST_ROWS,
    certified,
    figure,
    first,
    listed,
    tests_table,
)
from simverify.results import CompareResult, CompareRun

MOST_DRAWN = 10
"""Models that get charts: a page of more is no longer a page."""

MOST_TESTED = 20
"""Results whose tests are listed one by one, those that failed first."""


_RESTS_ON = {
    "exact": "exact law, samples",
    "sampled": "samples",
    "output": "emitted tokens",
}


def compare_report(run: CompareRun) -> Report:
    """Return the report of a comparison."""
    return Report(
        command="compare",
        title=f"{listed(dict.fromkeys(r.verifier for r in run.results))} on "
        f"{model_names(run.models, 4, 24)}",
        verdict=run.verdict,
        ruling=ruling(run),
        facts=tuple(compare_facts(run)),
        sections=tuple(_sections(run)),
        cases=tuple(_case(run, row) for row in run.results),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _sections(run: CompareRun) -> Iterator[Section]:
    yield Section("Verdicts", tuple(_verdicts(run)))
    drawn = run.models[:MOST_DRAWN]
    for i, model in enumerate(drawn):
        rows = [row for row in run.results if row.model == model.name]
        yield Section(
            f"Model {model_name(model, 48)}", tuple(model_blocks(f"m{i}", run, model, rows))
        )
    if more := len(run.models) - len(drawn):
        yield Section("More models", (Prose(
            f"{count(more, 'model')} more stand in the tables above and in the run file; charts "
            f"are drawn for the first {MOST_DRAWN}."
        ),))  # fmt: skip
    yield from groups_section(run)
    yield Section("What the verdicts rest on", tuple(_basis(run)))
    yield Section("To reproduce", tuple(reproduce_blocks(run)))


def _verdicts(run: CompareRun) -> Iterator[Block]:
    findings = [
        f"{row.verifier} on {row.model}: {finding}"
        for row in run.results
        for finding in _findings(row)
    ]
    if findings:
        yield Items(*first(findings, MOST_ITEMS))
    ordered = sorted(run.results, key=lambda row: row.verdict == "PASS")
    shown, left_out = first(ordered, MOST_ROWS)
    yield Table(
        "Verdicts, and distance to the optimum",
        ("lossless", "as declared", "verifier", "model", "E[tau]", "by", "measured",
         "99.9% interval", "block efficiency", "gap to optimum", "predicted speed-up",
         "rests on"),
        tuple(_row(row) for row in shown),
        numbers=frozenset({4, 6, 7, 8, 9, 10}),
        names=frozenset({2, 3}),
        left_out=left_out,
    )  # fmt: skip
    if words := optimum_words(run):
        yield Prose(words)
    for words in load_words(run):
        yield Prose(words)


def _row(row: CompareResult) -> tuple[Cell, ...]:
    low, high = row.measured.ci_low, row.measured.ci_high
    return (
        Cell(row.lossless.verdict, mark=MARKS[row.lossless.verdict]),
        Cell(row.acceptance.verdict, mark=MARKS[row.acceptance.verdict])
        if row.acceptance.tests
        else Cell("not judged"),
        Cell(row.verifier),
        Cell(row.model),
        expected_cell(row.expected_accepted),
        Cell(row.expected_accepted.method),
        figure(row.measured.mean, 5),
        Cell(f"{low:.5g} to {high:.5g}", high - low),
        figure(row.block_efficiency, 5),
        Cell(gap_words(row), 1 - row.optimality),
        Cell(f"{row.speedup.predicted:.3g}x", row.speedup.predicted),
        Cell(_RESTS_ON[row.lossless.tier] if row.lossless.tests else "exact law"),
    )


def _basis(run: CompareRun) -> Iterator[Block]:
    shown, left_out = first(run.results, MOST_ROWS)
    yield Table(
        "Exact checks, power and certificates",
        ("verifier", "model", "exact law", "lossless", "acceptance", "certificate"),
        tuple(
            (
                Cell(row.verifier),
                Cell(row.model),
                _exact(row),
                Cell(found_from(row.lossless.detectable), row.lossless.detectable),
                _accepts(row),
                Cell(certified(row.lossless.certificate) if row.lossless.certificate else "none"),
            )
            for row in shown
        ),
        names=frozenset({0, 1}),
        folded=True,
        left_out=left_out,
    )  # fmt: skip
    ordered = sorted(run.results, key=lambda row: row.verdict == "PASS")[:MOST_TESTED]
    for row in ordered:
        for line in suspicion(row.lossless.localisation, row.lossless.faults):
            yield Prose(f"{row.verifier} on {row.model}: {line}.")
        if row.verdict != "PASS" and row.lossless.faults is not None:
            yield from fault_blocks(row.lossless.faults)
    refuted = {row.lossless.faults.refuted for row in run.results if row.lossless.faults}
    names = dict.fromkeys(fault.fault for every in refuted for fault in every)
    if names:
        yield Prose(
            f"Catalogued faults refuted somewhere in this run: {listed(sorted(names), 60)}."
        )
    tests = [
        (f"{row.verifier} on {row.model}", test)
        for row in ordered
        for test in (*row.lossless.tests, *row.acceptance.tests)
    ]
    what = "Sampled tests of the kernels" if run.decoding is None else "Tests of the emitted tokens"
    yield tests_table(what, tests)
    if more := len(run.results) - len(ordered):
        yield Prose(f"The tests of {count(more, 'result')} more stand in the run file.")


def _accepts(row: CompareResult) -> Cell:
    part = row.acceptance
    if not part.tests:
        return Cell(part.words)
    return Cell(f"{part.words}; {found_from(part.detectable)}", mark=MARKS[part.verdict])


def _exact(row: CompareResult) -> Cell:
    exact = row.lossless.exact
    if exact is None:
        real = row.lossless.tier == "output"
        return Cell("none of real models" if real else "too large to write out")
    return Cell(
        f"{exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}", exact.tv
    )


def _case(run: CompareRun, row: CompareResult) -> Case:
    name = f"{row.verifier} on {row.model}"
    if row.verdict == "FAIL":
        return Case(name, "failed", "; ".join(_findings(row)))
    if row.verdict == "INCONCLUSIVE":
        return Case(name, "inconclusive", reason(run, row))
    return Case(name, "passed")


def _findings(row: CompareResult) -> list[str]:
    strange = f"{row.acceptance.words}: "
    return [*row.lossless.findings, *(strange + finding for finding in row.acceptance.findings)]

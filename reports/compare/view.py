"""A comparison as a report: the verdicts and what they rest on, models with their charts."""

from collections.abc import Iterator

from simverify.reports.audit.found import count
from simverify.reports.compare.decoded import law_words, optimum_words, rests_on
from simverify.reports.compare.model_blocks import expected_cell, model_blocks
from simverify.reports.compare.reproduce import reproduce_blocks
from simverify.reports.compare.trees import gap_words, load_words, tree_words
from simverify.reports.compare.words import counted, found_from, model_words, reason, ruling
from simverify.reports.faults import fault_blocks, suspicion
from simverify.reports.view import (
    MARKS,
    Block,
    Case,
    Cell,
    Fact,
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
    shortened,
    tests_table,
)
from simverify.results import CompareResult, CompareRun


def compare_facts(run: CompareRun) -> Iterator[Fact]:
    """Yield what was judged, how many passed, and the error rates of the run."""
    for name, things, verdicts in (
        ("Lossless", counted(run), [row.lossless.verdict for row in run.results]),
        (
            "Accepts as the declared rule",
            "blocks",
            [row.acceptance.verdict for row in run.results if row.acceptance.tests],
        ),
    ):
        total = count(len(verdicts), "result")
        told = [f"{verdicts.count('PASS')} of {total} passed"]
        told += [f"{n} failed"] if (n := verdicts.count("FAIL")) else []
        told += [f"{n} with too few {things}"] if (n := verdicts.count("INCONCLUSIVE")) else []
        yield Fact(name, ", ".join(told))
    models = listed(map(model_words, run.models), 4, 120)
    law = ""
    if (real := run.decoding) is not None:
        law = f", at {law_words(real.temperature, real.top_k, real.top_p)}"
    drafts = "" if run.drafting is None else f", {tree_words(run.drafting)}"
    yield Fact("Judged", f"gamma {run.gamma}{drafts}, on {models}{law}")
    yield Fact("Rests on", _rests_on(run))
    yield Fact(
        "False alarms",
        f"with probability {run.alpha:g} at most this run reports a fault where there is none",
    )
    kinds = dict.fromkeys(row.lossless.deviation for row in run.results)
    kinds |= dict.fromkeys(row.acceptance.deviation for row in run.results if row.acceptance.tests)
    yield Fact(
        "Power",
        f"{run.power:g} against each of these of {run.detect:g}, or the verdict is INCONCLUSIVE: "
        f"{'; '.join(shortened(kind, 120) for kind in list(kinds)[:4])}",
    )
    # Beside a FAIL, or a run that was too short, a bound would only mislead.
    passed = [row.lossless for row in run.results if row.lossless.verdict == "PASS"]
    bounds = [lossless.certificate.bound for lossless in passed if lossless.certificate]
    if bounds:
        where = "" if len(passed) == len(run.results) else ", where lossless passed"
        yield Fact(
            "Certified",
            f"mean one-token TV at most {max(bounds):.3g}{where}, by the assumption beside each "
            "certificate",
        )


def _rests_on(run: CompareRun) -> str:
    if run.decoding is not None:
        return rests_on(run.decoding)
    exact = sum(row.lossless.tier == "exact" for row in run.results)
    both = "the rule's exact law and sampled tests of its kernel"
    if any(not row.lossless.tests for row in run.results):
        both += ", where it has one"
    if exact == len(run.results):
        return both
    if not exact:
        return "sampled tests of the kernels alone"
    return f"{both} for {exact} of {len(run.results)} results, sampled tests alone for the others"


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
        f"{listed((model.name for model in run.models), 4, 24)}",
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
            f"Model {shortened(model.name, 48)}", tuple(model_blocks(f"m{i}", run, model, rows))
        )
    if more := len(run.models) - len(drawn):
        yield Section("More models", (Prose(
            f"{count(more, 'model')} more stand in the tables above and in the run file; charts "
            f"are drawn for the first {MOST_DRAWN}."
        ),))  # fmt: skip
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

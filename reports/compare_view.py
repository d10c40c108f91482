"""A comparison as a report: the verdicts and what they rest on, models with their charts."""

import shlex
from collections.abc import Iterator, Sequence

from simverify.reports.fault_blocks import fault_blocks
from simverify.reports.found import count
from simverify.reports.model_blocks import expected_cell, model_blocks
from simverify.reports.suspicion import suspicion
from simverify.reports.view import (
    MARKS,
    Block,
    Case,
    Cell,
    Command,
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
    clean,
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


def compare_report(run: CompareRun) -> Report:
    """Return the report of a comparison."""
    return Report(
        command="compare",
        title=f"{listed(dict.fromkeys(r.verifier for r in run.results))} on "
        f"{listed(model.name for model in run.models)}",
        verdict=run.verdict,
        ruling=_ruling(run),
        facts=tuple(_facts(run)),
        sections=tuple(_sections(run)),
        cases=tuple(_case(row) for row in run.results),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _ruling(run: CompareRun) -> str:
    lossy = [row for row in run.results if row.lossless.verdict == "FAIL"]
    other = [row for row in run.results if row.verdict == "FAIL" and row not in lossy]
    unsure = [row for row in run.results if row.verdict == "INCONCLUSIVE"]
    parts = []
    if lossy:
        parts.append(f"Do not ship {_named(lossy)}: the output does not follow the target model.")
    if other:
        parts.append(f"{_named(other)}: accepts otherwise than the rule it is declared to be.")
    if unsure:
        parts.append(f"Do not decide on this run about {_named(unsure)}: too few samples.")
    if not parts:
        parts.append(
            "No verifier deviates from its target model on any model tried, with the error rates "
            "below: nothing here speaks against shipping them."
        )
    return " ".join(parts)


def _named(rows: Sequence[CompareResult]) -> str:
    return listed((f"{row.verifier} on {row.model}" for row in rows), 5)


def _facts(run: CompareRun) -> Iterator[Fact]:
    passed = sum(row.verdict == "PASS" for row in run.results)
    yield Fact("Passed", f"{passed} of {count(len(run.results), 'result')}, gamma {run.gamma}")
    exact = sum(row.lossless.tier == "exact" for row in run.results)
    both = "the rule's exact law and sampled tests of its kernel"
    if exact == len(run.results):
        yield Fact("Rests on", both)
    elif exact:
        yield Fact("Rests on", f"{both} for {exact} of {count(len(run.results), 'result')}, "
                   "sampled tests alone for the others")  # fmt: skip
    else:
        yield Fact("Rests on", "sampled tests of the kernels alone")
    yield Fact(
        "False alarms",
        f"with probability {run.alpha:g} at most this run reports a fault where there is none",
    )
    kinds = dict.fromkeys(row.lossless.deviation for row in run.results)
    yield Fact(
        "Power",
        f"{run.power:g} against a deviation of {run.detect:g}, or the verdict is INCONCLUSIVE: "
        f"{listed(kinds, 4)}",
    )
    bounds = [r.lossless.certificate.bound for r in run.results if r.lossless.certificate]
    if bounds:
        yield Fact("Certified", f"mean one-token TV at most {max(bounds):.3g}, by the assumption "
                   "beside each certificate")  # fmt: skip


def _sections(run: CompareRun) -> Iterator[Section]:
    yield Section("Verdicts", tuple(_verdicts(run)))
    drawn = run.models[:MOST_DRAWN]
    for i, model in enumerate(drawn):
        rows = [row for row in run.results if row.model == model.name]
        yield Section(f"Model {clean(model.name, 80)}", tuple(model_blocks(f"m{i}", model, rows)))
    if more := len(run.models) - len(drawn):
        yield Section("More models", (Prose(
            f"{count(more, 'model')} more stand in the tables above and in the run file; charts "
            f"are drawn for the first {MOST_DRAWN}."
        ),))  # fmt: skip
    yield Section("What the verdicts rest on", tuple(_basis(run)))
    yield Section("To reproduce", (
        Command(_command(run)),
        Prose("Name a model file by its path, and add --blocks, --draft-distance and "
              "--temperature as they were given: the run file does not hold them."),
    ))  # fmt: skip


def _verdicts(run: CompareRun) -> Iterator[Block]:
    findings = [
        f"{row.verifier} on {row.model}: {finding}"
        for row in run.results
        for finding in (*row.lossless.findings, *row.acceptance.findings)
    ]
    if findings:
        yield Items(*first(findings, MOST_ITEMS))
    ordered = sorted(run.results, key=lambda row: row.verdict == "PASS")
    shown, left_out = first(ordered, MOST_ROWS)
    yield Table(
        "Verdicts, and distance to the optimum",
        ("model", "verifier", "lossless", "rests on", "E[tau]", "by", "measured",
         "\N{PLUS-MINUS SIGN}", "block efficiency", "gap to optimum", "speed-up"),
        tuple(_row(row) for row in shown),
        numbers=frozenset({4, 6, 7, 8, 9, 10}),
        left_out=left_out,
    )  # fmt: skip


def _row(row: CompareResult) -> tuple[Cell, ...]:
    half = (row.measured.ci_high - row.measured.ci_low) / 2
    gap = row.optimum.expected_accepted * (1 - row.optimality)
    return (
        Cell(row.model),
        Cell(row.verifier),
        Cell(row.lossless.verdict, mark=MARKS[row.lossless.verdict]),
        Cell("exact law, samples" if row.lossless.tier == "exact" else "samples"),
        expected_cell(row.expected_accepted),
        Cell(row.expected_accepted.method),
        figure(row.measured.mean, 5),
        figure(half, 2),
        figure(row.block_efficiency, 5),
        Cell(f"{gap:.3g} ({1 - row.optimality:.1%} of {row.optimum.name})", 1 - row.optimality),
        Cell(f"{row.speedup.predicted:.3g}x", row.speedup.predicted),
    )


def _basis(run: CompareRun) -> Iterator[Block]:
    shown, left_out = first(run.results, MOST_ROWS)
    yield Table(
        "Exact checks, power and certificates",
        ("model", "verifier", "exact law", "found from", "acceptance", "certificate"),
        tuple(
            (
                Cell(row.model),
                Cell(row.verifier),
                _exact(row),
                Cell(_found(row.lossless.detectable), row.lossless.detectable),
                Cell(f"{row.acceptance.words}; {_found(row.acceptance.detectable)}",
                     mark=MARKS[row.acceptance.verdict]),
                Cell(certified(row.lossless.certificate) if row.lossless.certificate else "none"),
            )
            for row in shown
        ),
        numbers=frozenset({3}),
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
    yield tests_table("Sampled tests of the kernels", tests)
    if more := len(run.results) - len(ordered):
        yield Prose(f"The tests of {count(more, 'result')} more stand in the run file.")


def _exact(row: CompareResult) -> Cell:
    exact = row.lossless.exact
    if exact is None:
        return Cell("too large to write out")
    return Cell(
        f"{exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}", exact.tv
    )


def _found(detectable: float | None) -> str:
    return "power for nothing" if detectable is None else f"from {detectable:.3g} on"


def _command(run: CompareRun) -> str:
    options = {
        "--gamma": str(run.gamma),
        "--verifiers": ",".join(dict.fromkeys(row.verifier for row in run.results)),
        "--models": ",".join(model.name for model in run.models),
        "--calls": str(max(len(row.calls) for row in run.results)),
        "--eos": "" if run.eos is None else str(run.eos),
        "--cost-ratio": f"{run.results[0].speedup.cost_ratio:g}",
        "--alpha": f"{run.alpha:g}",
        "--detect": f"{run.detect:g}",
        "--seed": str(run.seed),
    }
    words = [word for name, value in options.items() if value for word in (name, value)]
    return shlex.join(["simverify", "compare", *words])


def _case(row: CompareResult) -> Case:
    name = f"{row.verifier} on {row.model}"
    if row.verdict == "FAIL":
        return Case(name, "failed", "; ".join((*row.lossless.findings, *row.acceptance.findings)))
    if row.verdict == "INCONCLUSIVE":
        return Case(name, "inconclusive", f"power {_found(row.lossless.detectable)}")
    return Case(name, "passed")

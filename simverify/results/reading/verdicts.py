"""Whether the verdicts of a run file are those that its own findings and tests give.

A verdict is what a reader signs, so that one which stands alone, changed by hand or by a
damaged file, is refused.
"""

from collections.abc import Iterator

from simverify.results import (
    Acceptance,
    AgainstRun,
    AuditRun,
    CompareResult,
    CompareRun,
    Document,
    EngineRow,
    Lossless,
    MatrixRun,
    OutputRun,
    SelfTestRun,
    SweepRun,
    TableRun,
    TriageRun,
    Verdict,
    WatchRun,
    overall,
    sweep_verdict,
    table_verdict,
)
from simverify.results.reading.due import due_verdict, told_tests
from simverify.results.reading.served import served_verdicts


def verdict_complaints(run: Document) -> Iterator[str]:
    """Name each field that contradicts a verdict of ``run``."""
    if isinstance(run, CompareRun):
        yield from _comparison(run)
    elif isinstance(run, AuditRun):
        yield from _audit(run)
    elif isinstance(run, OutputRun | AgainstRun | TriageRun | WatchRun | MatrixRun):
        yield from served_verdicts(run)
    elif isinstance(run, SelfTestRun):
        yield from _self_test(run)
    elif isinstance(run, TableRun):
        yield from _table(run)
    elif isinstance(run, SweepRun):
        yield from _sweep(run)


def _comparison(run: CompareRun) -> Iterator[str]:
    for i, row in enumerate(run.results):
        yield from _row(row, run.detect, f"results[{i}]")
    if run.results:
        worst = overall([row.verdict for row in run.results])
        yield from due_verdict("verdict", run.verdict, worst, "the worst of its results")


def _row(row: CompareResult, detect: float, where: str) -> Iterator[str]:
    yield from _judged(row.lossless, detect, f"{where}.lossless")
    yield from _judged(row.acceptance, detect, f"{where}.acceptance")
    worse = overall([row.lossless.verdict, row.acceptance.verdict])
    yield from due_verdict(f"{where}.verdict", row.verdict, worse, "the worse of its two")


def _sweep(run: SweepRun) -> Iterator[str]:
    for i, cell in enumerate(run.cells):
        yield from _row(cell.result, run.detect, f"cells[{i}].result")
    for i, audit in enumerate(run.audits):
        where = f"audits[{i}]"
        if (audit.verdict is None) == (audit.state == "judged"):
            yield f"{where}.verdict is {audit.verdict} with the state {audit.state}"
        if (audit.verdict == "FAIL") != bool(audit.findings):
            yield f"{where}.verdict is {audit.verdict} with {len(audit.findings)} findings"
    if run.cells or run.audits:
        due = sweep_verdict(run.cells, run.audits)
        yield from due_verdict("verdict", run.verdict, due, "the worst of its cells and audits")


def _judged(part: Lossless | Acceptance, detect: float, where: str) -> Iterator[str]:
    yield from told_tests(part.tests, part.findings, where)
    reached = part.detectable is not None and part.detectable <= detect
    due: Verdict = "FAIL" if part.findings else "PASS" if reached else "INCONCLUSIVE"
    why = "by its findings" if part.findings or reached else "as detectable is above detect"
    yield from due_verdict(f"{where}.verdict", part.verdict, due, why)


def _audit(run: AuditRun) -> Iterator[str]:
    if run.sampled is not None:
        yield from told_tests(run.sampled.tests, run.sampled.findings, "sampled")
        missing = [x.text for x in run.sampled.findings if x not in run.findings]
        if missing:
            yield f"findings has no {missing[0]!r}: expected it, as in sampled.findings"
    if run.verdict == "FAIL":
        if not run.findings:
            yield "verdict is FAIL and findings is empty: expected what failed"
    else:
        for field, speaks in _against(run):
            if speaks:
                yield f"verdict is {run.verdict}: expected FAIL, by {field}"
    if run.verdict == "PASS" and run.sampled is None:
        for i, instance in enumerate(run.instances):
            # What was left out counts among the deviation, and what was run lacks it.
            left_out = instance.left_out
            if left_out is not None and instance.max_abs_deviation > run.tolerance + 2 * left_out:
                yield f"instances[{i}].max_abs_deviation is above what a PASS allows"
    if run.verdict == "INCONCLUSIVE" and run.inconclusive is None:
        yield "inconclusive is null: expected why the verdict is INCONCLUSIVE"
    if run.verdict != "INCONCLUSIVE" and run.inconclusive is not None:
        yield f"verdict is {run.verdict}: expected INCONCLUSIVE, by inconclusive"


def _against(run: AuditRun) -> Iterator[tuple[str, bool]]:
    """Yield the fields that speak against a verdict which is not FAIL."""
    yield "findings", bool(run.findings)
    yield "counterexample", run.counterexample is not None
    yield "breach", run.breach is not None
    yield "rows", run.rows is not None
    for i, instance in enumerate(run.instances):
        yield f"instances[{i}].failed", instance.failed
    for i, probe in enumerate(run.probes):
        yield f"probes[{i}].outcome, a violation", probe.outcome == "violation"


def _self_test(run: SelfTestRun) -> Iterator[str]:
    unexpected = tuple(entry.name for entry in run.results if not entry.as_expected)
    if run.unexpected != unexpected:
        named = ", ".join(unexpected) or "none"
        yield f"unexpected does not name the entries that are not as expected: {named}"
    due: Verdict = "FAIL" if unexpected else "PASS"
    yield from due_verdict("verdict", run.verdict, due, "by its results")


def _table(run: TableRun) -> Iterator[str]:
    for i, row in enumerate(run.rows):
        where = f"rows[{i}]"
        if (row.verdict is None) == (row.state == "judged"):
            yield f"{where}.verdict is {row.verdict} with the state {row.state}"
        if row.verdict == "FAIL" and not row.findings:
            yield f"{where}.verdict is FAIL and findings is empty: expected what failed"
        if row.verdict != "FAIL" and (row.findings or row.counterexample is not None):
            yield f"{where}.verdict is {row.verdict}: expected FAIL, by what was found"
        if row.verdict == "PASS" and row.reason:
            yield f"{where}.verdict is PASS: expected INCONCLUSIVE, by reason"
        if row.verdict == "PASS" and not _rests(row):
            yield f"{where}.verdict is PASS and rests on nothing: expected a tier and what it tried"
        if row.verdict != "PASS" and row.least is not None:
            yield f"{where}.least stands beside the verdict {row.verdict}: expected null"
        if row.state == "absent" and row.found is not None:
            yield f"{where}.state is absent and found is {row.found}: expected null"
    yield from due_verdict("verdict", run.verdict, table_verdict(run.rows), "by its rows")


def _rests(row: EngineRow) -> bool:
    """Whether a PASS says its tier, and has that tier's certificate."""
    if row.tier == "sampled":
        return row.certificate is not None
    return row.tier is not None and row.instances > 0 and row.tolerance is not None

"""Whether the verdicts on what engines served are those that their own findings give."""

from collections.abc import Iterator

from simverify.results import (
    AgainstRun,
    MatrixRun,
    OutputRun,
    TriageRun,
    Verdict,
    WatchRun,
    matrix_verdict,
)
from simverify.results.reading.due import due_verdict, told_tests
from simverify.results.served.matrix import OPEN

Served = OutputRun | AgainstRun | MatrixRun | TriageRun | WatchRun


def served_verdicts(run: Served) -> Iterator[str]:
    """Name each field that contradicts a verdict of ``run``."""
    if isinstance(run, OutputRun):
        yield from _outputs(run)
    elif isinstance(run, AgainstRun):
        yield from _against(run)
    elif isinstance(run, TriageRun):
        yield from _triage(run)
    elif isinstance(run, MatrixRun):
        yield from _matrix(run)
    else:
        yield from _watch(run)


def _outputs(run: OutputRun) -> Iterator[str]:
    yield from told_tests(run.tests, run.findings, "outputs")
    unread = run.text is not None and run.text.not_round_tripping > 0
    due: Verdict = "FAIL" if run.findings else "PASS"
    unlike = bool(run.hidden) and (run.shape is None or run.shape.rejected)
    if unread or (due == "PASS" and (run.detectable > run.detect or unlike)):
        due = "INCONCLUSIVE"
    if run.other_prompts and run.inconclusive is not None:
        due = "INCONCLUSIVE"
    yield from due_verdict("verdict", run.verdict, due, "by findings, text, detectable and hidden")
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"
    if run.unsupported and not run.findings:
        yield "unsupported tokens without a finding: expected one"


def _against(run: AgainstRun) -> Iterator[str]:
    yield from told_tests(run.tests, run.findings, "tests")
    due: Verdict = "FAIL" if run.findings else "PASS"
    if due == "PASS" and run.detectable > run.detect:
        due = "INCONCLUSIVE"
    # Copies leave no verdict whatever was found, and one stream for both or answers of one token
    # none where nothing was.
    if run.verdict != "INCONCLUSIVE" or (run.findings and not min(run.copied)):
        yield from due_verdict("verdict", run.verdict, due, "by findings and detectable")
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"


def _triage(run: TriageRun) -> Iterator[str]:
    told = sum(one.requests for one in run.counts if one.kind != "same")
    if sum(one.requests for one in run.counts) != run.requests:
        yield f"counts do not add up to requests, {run.requests}"
    if len(run.cases) + run.left_out != told:
        yield f"cases and left_out do not add up to {told}, the requests that are not the same"
    faults = any(case.fault for case in run.cases)
    if run.findings and not faults:
        yield "findings without a case that is a fault: expected one"
    if run.inconclusive is None:
        due: Verdict = "FAIL" if faults else "PASS"
    else:
        due = "INCONCLUSIVE"
    yield from due_verdict("verdict", run.verdict, due, "by its cases and inconclusive")
    if run.verdict == "PASS" and any(case.fault is None for case in run.cases):
        yield "verdict is PASS with a case of which nobody can tell: expected INCONCLUSIVE"
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"


def _watch(run: WatchRun) -> Iterator[str]:
    raised = run.alarm is not None
    if raised != (run.alarm_at is not None) or raised != bool(run.findings):
        yield "alarm, alarm_at and findings do not go together: expected all, or none"
    if not raised and (run.highest >= run.hurdle or run.unsupported):
        yield "alarm is null: expected one, by highest and unsupported"
    delay = run.delays[0].tokens if run.delays and run.delays[0].after == 0 else None
    enough = delay is not None and run.tokens >= delay
    due: Verdict = "FAIL" if raised else "PASS" if enough else "INCONCLUSIVE"
    yield from due_verdict("verdict", run.verdict, due, "by alarm, tokens and delays")
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"


def _matrix(run: MatrixRun) -> Iterator[str]:
    yield from due_verdict("verdict", run.verdict, matrix_verdict(run.cells), "by its cells")
    for i, cell in enumerate(run.cells):
        decided = cell.outcome not in ("refused", *OPEN, "other", "not honoured")
        if decided and cell.left != (cell.outcome,):
            yield f"cells[{i}].outcome is {cell.outcome!r} and left is {list(cell.left)}"

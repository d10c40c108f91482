"""What a schema cannot say of a run file: lengths that agree, numbers in range, verdicts.

A verdict must be the one that its own findings and tests give.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from simverify.checks import clean_line
from simverify.errors import UsageError
from simverify.results import Document
from simverify.results.audit import AuditRun, Counterexample, DraftCall, Instance
from simverify.results.common import DraftingTime, Test, Verdict, overall
from simverify.results.compare import (
    Acceptance,
    CompareResult,
    CompareRun,
    DraftAcceptance,
    LayerParallel,
    LayerSimilarity,
    Loss,
    Lossless,
    ModelInfo,
    PlanRun,
)
from simverify.results.served import (
    OPEN_OUTCOMES,
    AgainstRun,
    MatrixRun,
    OutputRun,
    TriageRun,
    WatchRun,
    matrix_verdict,
)
from simverify.results.surveys import (
    BisectRun,
    EngineRow,
    SelfTestRun,
    SweepRun,
    TableRun,
    sweep_verdict,
    table_verdict,
)

# Comparisons of ways to draft: names, groups of layers, losses and times that agree.


_LOSS_ROUNDING = 1e-6

GROUPED_DRAFTER = "easyspec"
"""The drafter whose layers run in groups."""


def drafting_complaints(run: CompareRun) -> Iterator[str]:
    """Name each field about drafters, groups of layers and their times that fits nothing else."""
    for i, model in enumerate(run.models):
        yield from _drafter_complaints(run, model, f"models[{i}].drafter")
    recorded = None if run.decoding is None else run.decoding.drafter
    if recorded is not None and not _is_of_trace(run):
        yield "decoding.drafter stands beside no trace: expected null"
    if run.layer_parallel and run.decoding is None:
        yield "layer_parallel stands beside simulated models: expected it empty"
    numbers = [entry.layer_parallel for entry in run.layer_parallel]
    of_models = [m.drafter.layer_parallel for m in run.models if m.drafter is not None]
    for i, entry in enumerate(run.layer_parallel):
        where = f"layer_parallel[{i}]"
        if entry.layer_parallel in numbers[:i]:
            yield f"{where}.layer_parallel is {entry.layer_parallel} again: expected each N once"
        if entry.layer_parallel not in of_models:
            yield (
                f"{where}.layer_parallel is {entry.layer_parallel}: expected that of a drafter in "
                "models"
            )
        yield from _group_complaints(entry, where)
        for k, layer in enumerate(entry.layers):
            yield from _similarity_complaints(layer, k, f"{where}.layers[{k}]")
        yield from _draft_acceptance_complaints(entry.acceptance, run.gamma, f"{where}.acceptance")
        if _plain_acceptances(entry) != _plain_acceptances(run.layer_parallel[0]):
            yield f"{where}.acceptance has other plain drafts than layer_parallel[0]: expected them"
    timed = [time.layer_parallel for time in run.meta.drafting]
    if timed != numbers:
        yield f"meta.drafting is of N = {timed}: expected {numbers}, as layer_parallel"
    for i, time in enumerate(run.meta.drafting):
        yield from _time_complaints(time, run.gamma, f"meta.drafting[{i}]")


def _drafter_complaints(run: CompareRun, model: ModelInfo, where: str) -> Iterator[str]:
    drafter = model.drafter
    if drafter is None:
        return
    if run.decoding is None:
        yield f"{where} stands beside simulated models: expected null"
    for name in ("layer_parallel", "calibration"):
        value = getattr(drafter, name)
        if (value is None) == (drafter.name == GROUPED_DRAFTER):
            shown = msgspec.json.encode(value).decode()
            expected = f"expected it of {GROUPED_DRAFTER}, and of that alone"
            yield f"{where}.{name} is {shown} for {drafter.name!r}: {expected}"
    if run.decoding is not None and _is_of_trace(run):
        if drafter != run.decoding.drafter:
            yield f"{where} is not decoding.drafter: expected the recording's"
        return
    numbers = [entry.layer_parallel for entry in run.layer_parallel]
    if drafter.layer_parallel is not None and drafter.layer_parallel not in numbers:
        yield f"{where}.layer_parallel is {drafter.layer_parallel}, which is not in layer_parallel"


def _is_of_trace(run: CompareRun) -> bool:
    return run.decoding is not None and run.decoding.trace is not None


def _group_complaints(entry: LayerParallel, where: str) -> Iterator[str]:
    """Every layer stands in one group, in order, and no group has more than N."""
    layers = [layer for group in entry.groups for layer in group]
    if not entry.layers:
        yield f"{where}.layers is empty: expected one or more"
    elif layers != list(range(len(entry.layers))):
        yield (
            f"{where}.groups holds the layers {layers}: expected 0 to {len(entry.layers) - 1}, "
            "each once and in order, as layers"
        )
    for k, group in enumerate(entry.groups):
        if not 1 <= len(group) <= entry.layer_parallel:
            yield (
                f"{where}.groups[{k}] has {len(group)} layers: expected 1 to "
                f"{entry.layer_parallel}, as layer_parallel"
            )


def _similarity_complaints(layer: LayerSimilarity, place: int, where: str) -> Iterator[str]:
    if layer.layer != place:
        yield f"{where}.layer is {layer.layer}: expected {place}, its place"
    for name in ("hidden", "attention", "q", "k", "v"):
        value = getattr(layer, name)
        if not -1.0 - _LOSS_ROUNDING <= value <= 1.0 + _LOSS_ROUNDING:
            yield f"{where}.{name} is {value:g}: expected -1 to 1"


def _draft_acceptance_complaints(
    found: Sequence[DraftAcceptance], gamma: int, where: str
) -> Iterator[str]:
    plain = {one.width: one for one in found if one.calibration is None}
    if not plain:
        yield f"{where} has no plain drafts: expected those of every width"
    seen = set()
    for k, one in enumerate(found):
        path, key = f"{where}[{k}]", (one.width, one.calibration)
        if key in seen:
            yield f"{path} has the width and the calibration of one before it: expected each once"
        seen.add(key)
        interval = one.expected_accepted
        # Of few lanes an interval may end above gamma.
        if not 0.0 <= interval.lower <= min(interval.upper, gamma):
            yield (
                f"{path}.expected_accepted is {interval.lower:g} to {interval.upper:g}: expected "
                "bounds in "
                f"order, the lower of 0 to {gamma}"
            )
        if one.calibration is None:
            if one.loss is not None:
                yield f"{path}.loss stands beside plain drafts: expected null"
        elif one.width not in plain:
            yield f"{path}.width is {one.width}, of which there are no plain drafts"
        elif one.loss is not None:
            yield from _loss_complaints(one.loss, one, plain[one.width], f"{path}.loss")
        elif plain[one.width].expected_accepted.lower > 0.0:
            yield f"{path}.loss is null: expected it, against plain drafts as wide"
    calibrations = {one.calibration for one in found}
    if len(seen) < len(plain) * len(calibrations):
        yield f"{where} lacks a width with or without calibration: expected all of them of each"


def _loss_complaints(
    loss: Loss, one: DraftAcceptance, plain: DraftAcceptance, where: str
) -> Iterator[str]:
    if not loss.ci_low <= loss.mean <= loss.ci_high:
        yield (
            f"{where}.mean is {loss.mean:g}: expected {loss.ci_low:g} to {loss.ci_high:g}, its "
            "interval"
        )
    interval, of_plain = one.expected_accepted, plain.expected_accepted
    # Where a bound was cut off at 0 the mean is not in the middle.
    if interval.lower > 0.0 and of_plain.lower > 0.0:
        expected = 1.0 - (interval.lower + interval.upper) / (of_plain.lower + of_plain.upper)
        if abs(loss.mean - expected) > _LOSS_ROUNDING * max(1.0, abs(expected)):
            yield f"{where}.mean is {loss.mean:g}: expected {expected:g}, by expected_accepted"


def _time_complaints(time: DraftingTime, gamma: int, where: str) -> Iterator[str]:
    for name in (
        "attention",
        "mlp",
        "group",
        "exact_pass",
        "fuzzy_pass",
        "rest",
        "added",
        "per_token",
        "tokens_per_second",
    ):
        value = getattr(time, name)
        if value < 0.0:
            yield f"{where}.{name} is {value:g}: expected 0 or more"
    if not 0.0 <= time.share <= 1.0 + _LOSS_ROUNDING:
        yield f"{where}.share is {time.share:g}: expected 0 to 1"
    if not 1 <= time.workers <= time.group_size <= time.layer_parallel:
        yield (
            f"{where} has workers, group_size and layer_parallel of {time.workers}, "
            f"{time.group_size} and {time.layer_parallel}: expected 1 or more, in this order"
        )
    if any(one.devices >= two.devices for one, two in pairwise(time.predicted)):
        yield f"{where}.predicted names devices out of order, or twice"
    for k, on in enumerate(time.predicted):
        path = f"{where}.predicted[{k}]"
        if on.devices < 1 or on.speed_up <= 0.0 or on.iteration < 0.0:
            yield f"{path} has a number below 1 device, or a time or speed that is negative"
        if abs(on.per_token * gamma - on.iteration) > _LOSS_ROUNDING * abs(on.iteration):
            expected = on.iteration / gamma
            yield f"{path}.per_token is {on.per_token:g}: expected {expected:g}, by iteration"


def _plain_acceptances(entry: LayerParallel) -> list[DraftAcceptance]:
    return [one for one in entry.acceptance if one.calibration is None]


# Tables of engines, and bisections.


def table_complaints(run: TableRun) -> Iterator[str]:
    """Name each field of a table that another contradicts, but for its verdicts."""
    if not run.rows:
        yield "rows is empty: expected one or more"
    if len(run.rows) != len(run.meta.row_seconds):
        yield (
            f"meta.row_seconds has {len(run.meta.row_seconds)} values: expected {len(run.rows)}, "
            "one for each row"
        )
    seen: set[str] = set()
    for i, row in enumerate(run.rows):
        if row.engine in seen:
            yield f"rows[{i}].engine is {row.engine!r}, which has a row already"
        seen.add(row.engine)


def bisect_complaints(run: BisectRun) -> Iterator[str]:
    """Name each field of a bisection that another contradicts."""
    order = {version: i for i, version in enumerate(run.versions)}
    if len(run.versions) < 2 or run.versions[0] != run.good or run.versions[-1] != run.bad:
        yield "versions does not begin with good and end with bad"
        return
    changed = {one.version: one.changed for one in run.tried}
    for i, one in enumerate(run.tried):
        if one.version not in order:
            yield f"tried[{i}].version is {one.version!r}, which is not in versions"
        if (one.verdict is None) == (one.state == "judged"):
            yield f"tried[{i}].verdict is {one.verdict} with the state {one.state}"
    if run.outcome == "unchanged":
        if run.first is not None or run.last is not None or run.differences:
            yield "outcome is unchanged: expected neither first nor last nor differences"
        if changed.get(run.bad) is not False:
            yield "outcome is unchanged: expected bad among tried, not changed"
        return
    if run.first is None or run.last is None:
        yield f"outcome is {run.outcome}: expected first and last"
    elif not (changed.get(run.first) is True and changed.get(run.last) is False):
        yield "first and last are not, in tried, one that changed and one that did not"
    elif order[run.first] <= order[run.last]:
        yield "first does not come after last"
    elif (order[run.first] - order[run.last] == 1) != (run.outcome == "changed"):
        between = order[run.first] - order[run.last] - 1
        yield f"outcome is {run.outcome} with {between} versions between last and first"


# Comparisons on draft trees: the tree, its nodes, its optimum.


_MASS_ROUNDING = 1e-6

_BOUNDING_METHODS = ("coupling", "counting")
"""Ways to the optimum that only bound it."""


def parents_complaints(parents: tuple[int, ...], where: str) -> Iterator[str]:
    """Name what makes ``parents`` no tree."""
    if not parents:
        yield f"{where} is empty: expected the parent of each node"
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            yield f"{where}[{node}] is {parent}: expected -1, or a node before it"
            return


def tree_complaints(run: CompareRun, row: CompareResult, where: str) -> Iterator[str]:
    """Name each field of ``row`` that the run's draft tree contradicts; its parents make one."""
    yield from _optimum_complaints(run, row, where)
    if run.drafting is None or row.one_draft:
        for name in ("nodes", "node_counts"):
            if getattr(row, name) is not None:
                yield f"{where}.{name} stands beside a single draft: expected null"
        if run.drafting is None and row.one_draft:
            yield f"{where}.one_draft is true without drafting: expected false"
        nodes = run.gamma
    else:
        nodes = len(run.drafting.parents)
        yield from _node_complaints(run.drafting.parents, row, where)
    if row.speedup.rows not in (None, nodes + 1):
        yield f"{where}.speedup.rows is {row.speedup.rows}: expected {nodes + 1}, or null"


def _optimum_complaints(run: CompareRun, row: CompareResult, where: str) -> Iterator[str]:
    best = row.optimum
    of_tree = run.drafting is not None and not row.one_draft
    if (best.name == "memoryless") != of_tree:
        expected = "memoryless, of a draft tree" if of_tree else "block or coupling"
        yield f"{where}.optimum.name is {best.name}: expected {expected}"
    if (best.by is None) == of_tree:
        yield f"{where}.optimum.by is {best.by}: expected it on draft trees, and there alone"
    if best.bound != (best.by in _BOUNDING_METHODS):
        yield f"{where}.optimum.bound is {str(best.bound).lower()}: expected otherwise, as by says"
    accepted = row.block_efficiency - 1
    if (
        of_tree
        and abs(row.optimality * best.expected_accepted - accepted) > _MASS_ROUNDING * run.gamma
    ):
        share = accepted / best.expected_accepted if best.expected_accepted > 0 else 1.0
        if best.expected_accepted > 0:
            yield f"{where}.optimality is {row.optimality:g}: expected {share:g}, by the optimum"


def _node_complaints(parents: tuple[int, ...], row: CompareResult, where: str) -> Iterator[str]:
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            return  # said of the tree itself
        depths.append(1 if parent < 0 else depths[parent] + 1)
    if max(depths) != row.gamma:
        yield f"{where}.gamma is {row.gamma}: expected {max(depths)}, the depth of drafting.parents"
        return
    if row.nodes is not None:
        exact = row.acceptance_ccdf.exact
        known = exact if exact is not None and len(exact) == row.gamma else None
        yield from _mass_complaints(parents, depths, row.nodes, known, f"{where}.nodes")
    if row.node_counts is not None:
        calls, accepted = row.node_counts.calls, row.node_counts.kept
        path = f"{where}.node_counts.kept"
        if not 0 < calls <= row.measured.blocks:
            yield (
                f"{where}.node_counts.calls is {calls:,}: expected 1 to {row.measured.blocks:,}, "
                "as measured.blocks"
            )
        else:
            yield from _mass_complaints(parents, depths, [n / calls for n in accepted], None, path)


def _mass_complaints(
    parents: tuple[int, ...],
    depths: list[int],
    masses: Sequence[float],
    levels: Sequence[float] | None,
    where: str,
) -> Iterator[str]:
    """Name what is no share of calls by node, or adds up to something else than ``levels``."""
    if len(masses) != len(parents):
        yield f"{where} has {len(masses)} values: expected {len(parents)}, one a node"
        return
    for node, mass in enumerate(masses):
        above = 1.0 if parents[node] < 0 else masses[parents[node]]
        if not -_MASS_ROUNDING <= mass <= above + _MASS_ROUNDING:
            yield f"{where}[{node}] is {mass:g}: expected 0 to {above:g}, as its parent has"
    for level, expected in enumerate(levels or (), 1):
        total = sum(m for m, depth in zip(masses, depths, strict=True) if depth == level)
        if abs(total - expected) > _MASS_ROUNDING:
            yield (
                f"{where} add up to {total:g} at level {level}: expected {expected:g}, as "
                "acceptance_ccdf.exact"
            )


# The basis of a verdict: the findings and the tests beside it.


def check_verdict(where: str, found: Verdict, due: Verdict, why: str) -> Iterator[str]:
    """Complain of a verdict that is not the one that is ``due``."""
    if found != due:
        yield f"{where} is {found}: expected {due}, {why}"


def check_tests(tests: Sequence[Test], findings: Sequence[object], where: str) -> Iterator[str]:
    """Complain of tests that rejected against their own log p, or without a finding."""
    for k, test in enumerate(tests):
        rejected = test.log_pvalue is None or test.log_pvalue < math.log(test.alpha)
        if test.rejected != rejected:
            shown = str(test.rejected).lower()
            yield f"{where}.tests[{k}].rejected is {shown}: expected otherwise, by log_pvalue"
        if test.rejected and not findings:
            yield f"{where}.tests[{k}].rejected is true: expected a finding in {where}.findings"


# Verdicts on served engines, against their own findings.


ServedRun = OutputRun | AgainstRun | MatrixRun | TriageRun | WatchRun


def served_verdict_complaints(run: ServedRun) -> Iterator[str]:
    """Name each field that contradicts a verdict of ``run``."""
    if isinstance(run, OutputRun):
        yield from _output_verdict_complaints(run)
    elif isinstance(run, AgainstRun):
        yield from _against_verdict_complaints(run)
    elif isinstance(run, TriageRun):
        yield from _triage_verdict_complaints(run)
    elif isinstance(run, MatrixRun):
        yield from _matrix_verdict_complaints(run)
    else:
        yield from _watch_verdict_complaints(run)


def _output_verdict_complaints(run: OutputRun) -> Iterator[str]:
    yield from check_tests(run.tests, run.findings, "outputs")
    unread = run.text is not None and run.text.not_round_tripping > 0
    expected: Verdict = "FAIL" if run.findings else "PASS"
    unlike = bool(run.hidden) and (run.shape is None or run.shape.rejected)
    if unread or (expected == "PASS" and (run.detectable > run.detect or unlike)):
        expected = "INCONCLUSIVE"
    if run.other_prompts and run.inconclusive is not None:
        expected = "INCONCLUSIVE"
    yield from check_verdict(
        "verdict", run.verdict, expected, "by findings, text, detectable and hidden"
    )
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"
    if run.unsupported and not run.findings:
        yield "unsupported tokens without a finding: expected one"


def _against_verdict_complaints(run: AgainstRun) -> Iterator[str]:
    yield from check_tests(run.tests, run.findings, "tests")
    expected: Verdict = "FAIL" if run.findings else "PASS"
    if expected == "PASS" and run.detectable > run.detect:
        expected = "INCONCLUSIVE"
    # Copies leave no verdict whatever was found, and one stream for both or answers of one token
    # none where nothing was.
    if run.verdict != "INCONCLUSIVE" or (run.findings and not min(run.copied)):
        yield from check_verdict("verdict", run.verdict, expected, "by findings and detectable")
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"


def _triage_verdict_complaints(run: TriageRun) -> Iterator[str]:
    differing = sum(one.requests for one in run.counts if one.kind != "same")
    if sum(one.requests for one in run.counts) != run.requests:
        yield f"counts do not add up to requests, {run.requests}"
    if len(run.cases) + run.left_out != differing:
        yield f"cases and left_out do not add up to {differing}, the requests that are not the same"
    faults = any(case.fault for case in run.cases)
    if run.findings and not faults:
        yield "findings without a case that is a fault: expected one"
    if run.inconclusive is None:
        expected: Verdict = "FAIL" if faults else "PASS"
    else:
        expected = "INCONCLUSIVE"
    yield from check_verdict("verdict", run.verdict, expected, "by its cases and inconclusive")
    if run.verdict == "PASS" and any(case.fault is None for case in run.cases):
        yield "verdict is PASS with a case of which nobody can tell: expected INCONCLUSIVE"
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"


def _watch_verdict_complaints(run: WatchRun) -> Iterator[str]:
    raised = run.alarm is not None
    if raised != (run.alarm_at is not None) or raised != bool(run.findings):
        yield "alarm, alarm_at and findings do not go together: expected all, or none"
    if not raised and (run.highest >= run.hurdle or run.unsupported):
        yield "alarm is null: expected one, by highest and unsupported"
    delay = run.delays[0].tokens if run.delays and run.delays[0].after == 0 else None
    enough = delay is not None and run.tokens >= delay
    expected: Verdict = "FAIL" if raised else "PASS" if enough else "INCONCLUSIVE"
    yield from check_verdict("verdict", run.verdict, expected, "by alarm, tokens and delays")
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"


def _matrix_verdict_complaints(run: MatrixRun) -> Iterator[str]:
    yield from check_verdict("verdict", run.verdict, matrix_verdict(run.cells), "by its cells")
    for i, cell in enumerate(run.cells):
        decided = cell.outcome not in ("refused", *OPEN_OUTCOMES, "other", "not honoured")
        if decided and cell.left != (cell.outcome,):
            yield f"cells[{i}].outcome is {cell.outcome!r} and left is {list(cell.left)}"


# Verdicts of a run file, against its own findings and tests.
#
# A verdict is what a reader signs, so one that does not follow, changed by hand or by a damaged
# file, is refused.


def verdict_complaints(run: Document) -> Iterator[str]:
    """Name each field that contradicts a verdict of ``run``."""
    if isinstance(run, CompareRun):
        yield from _comparison_verdict_complaints(run)
    elif isinstance(run, AuditRun):
        yield from _audit_verdict_complaints(run)
    elif isinstance(run, OutputRun | AgainstRun | TriageRun | WatchRun | MatrixRun):
        yield from served_verdict_complaints(run)
    elif isinstance(run, SelfTestRun):
        yield from _self_test_verdict_complaints(run)
    elif isinstance(run, TableRun):
        yield from _table_verdict_complaints(run)
    elif isinstance(run, SweepRun):
        yield from _sweep_verdict_complaints(run)


def _comparison_verdict_complaints(run: CompareRun) -> Iterator[str]:
    for i, row in enumerate(run.results):
        yield from _result_verdict_complaints(row, run.detect, f"results[{i}]")
    if run.results:
        worst = overall([row.verdict for row in run.results])
        yield from check_verdict("verdict", run.verdict, worst, "the worst of its results")


def _result_verdict_complaints(row: CompareResult, detect: float, where: str) -> Iterator[str]:
    yield from _part_verdict_complaints(row.lossless, detect, f"{where}.lossless")
    yield from _part_verdict_complaints(row.acceptance, detect, f"{where}.acceptance")
    worse = overall([row.lossless.verdict, row.acceptance.verdict])
    yield from check_verdict(f"{where}.verdict", row.verdict, worse, "the worse of its two")


def _sweep_verdict_complaints(run: SweepRun) -> Iterator[str]:
    for i, cell in enumerate(run.cells):
        yield from _result_verdict_complaints(cell.result, run.detect, f"cells[{i}].result")
    for i, audit in enumerate(run.audits):
        where = f"audits[{i}]"
        if (audit.verdict is None) == (audit.state == "judged"):
            yield f"{where}.verdict is {audit.verdict} with the state {audit.state}"
        if (audit.verdict == "FAIL") != bool(audit.findings):
            yield f"{where}.verdict is {audit.verdict} with {len(audit.findings)} findings"
    if run.cells or run.audits:
        expected = sweep_verdict(run.cells, run.audits)
        yield from check_verdict(
            "verdict", run.verdict, expected, "the worst of its cells and audits"
        )


def _part_verdict_complaints(
    part: Lossless | Acceptance, detect: float, where: str
) -> Iterator[str]:
    yield from check_tests(part.tests, part.findings, where)
    reached = part.detectable is not None and part.detectable <= detect
    expected: Verdict = "FAIL" if part.findings else "PASS" if reached else "INCONCLUSIVE"
    why = "by its findings" if part.findings or reached else "as detectable is above detect"
    yield from check_verdict(f"{where}.verdict", part.verdict, expected, why)


def _audit_verdict_complaints(run: AuditRun) -> Iterator[str]:
    if run.sampled is not None:
        yield from check_tests(run.sampled.tests, run.sampled.findings, "sampled")
        missing = [x.text for x in run.sampled.findings if x not in run.findings]
        if missing:
            yield f"findings has no {missing[0]!r}: expected it, as in sampled.findings"
    if run.verdict == "FAIL":
        if not run.findings:
            yield "verdict is FAIL and findings is empty: expected what failed"
    else:
        for field, speaks in _failure_fields(run):
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


def _failure_fields(run: AuditRun) -> Iterator[tuple[str, bool]]:
    """Yield the fields that speak against a verdict which is not FAIL."""
    yield "findings", bool(run.findings)
    yield "counterexample", run.counterexample is not None
    yield "breach", run.breach is not None
    yield "rows", run.rows is not None
    for i, instance in enumerate(run.instances):
        yield f"instances[{i}].failed", instance.failed
    for i, probe in enumerate(run.probes):
        yield f"probes[{i}].outcome, a violation", probe.outcome == "violation"


def _self_test_verdict_complaints(run: SelfTestRun) -> Iterator[str]:
    unexpected = tuple(entry.name for entry in run.results if not entry.as_expected)
    if run.unexpected != unexpected:
        named = ", ".join(unexpected) or "none"
        yield f"unexpected does not name the entries that are not as expected: {named}"
    expected: Verdict = "FAIL" if unexpected else "PASS"
    yield from check_verdict("verdict", run.verdict, expected, "by its results")


def _table_verdict_complaints(run: TableRun) -> Iterator[str]:
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
        if row.verdict == "PASS" and not _has_tier_certificate(row):
            yield f"{where}.verdict is PASS and rests on nothing: expected a tier and what it tried"
        if row.verdict != "PASS" and row.least is not None:
            yield f"{where}.least stands beside the verdict {row.verdict}: expected null"
        if row.state == "absent" and row.found is not None:
            yield f"{where}.state is absent and found is {row.found}: expected null"
    yield from check_verdict("verdict", run.verdict, table_verdict(run.rows), "by its rows")


def _has_tier_certificate(row: EngineRow) -> bool:
    """Whether a PASS says its tier, and has that tier's certificate."""
    if row.tier == "sampled":
        return row.certificate is not None
    return row.tier is not None and row.instances > 0 and row.tolerance is not None


_RANGE_ROUNDING = 1e-6


def check_consistent(run: Document, name: str) -> None:
    """Raise ``UsageError`` that names the first field of ``run`` that fits nothing else."""
    for complaint in _document_complaints(run):
        message = clean_line(complaint)
        raise UsageError(f"{name} is not a result document of this version: {message}")


def _document_complaints(run: Document) -> Iterator[str]:
    yield from range_complaints(run)
    if isinstance(run, CompareRun):
        yield from _comparison_complaints(run)
    elif isinstance(run, PlanRun):
        yield from _plan_complaints(run)
    elif isinstance(run, AuditRun):
        yield from _audit_complaints(run)
    elif isinstance(run, TableRun):
        yield from table_complaints(run)
    elif isinstance(run, BisectRun):
        yield from bisect_complaints(run)
    elif isinstance(run, SweepRun):
        yield from _sweep_complaints(run)
    yield from verdict_complaints(run)


def _comparison_complaints(run: CompareRun) -> Iterator[str]:
    if run.drafting is not None:
        yield from parents_complaints(run.drafting.parents, "drafting.parents")
    names = [model.name for model in run.models]
    if not run.results:
        yield "results is empty: expected one or more"
    timed = {(timing.model, timing.verifier) for timing in run.meta.timings}
    for i, row in enumerate(run.results):
        where = f"results[{i}]"
        if row.model not in names:
            yield f"{where}.model is {row.model!r}, which is not in models"
        if (row.model, row.verifier) not in timed:
            yield f"meta.timings has no entry for {where}, {row.verifier!r} on {row.model!r}"
        if row.gamma != run.gamma:
            yield f"{where}.gamma is {row.gamma}: expected {run.gamma}, as gamma"
        yield from _result_complaints(row, where)
        yield from tree_complaints(run, row, where)
    for i, model in enumerate(run.models):
        if model.name not in {row.model for row in run.results}:
            yield f"models[{i}].name is {model.name!r}, which has no result"
        high = model.bounds.coupling.upper
        yield from _within_complaints(f"models[{i}].bounds.coupling.upper", [high], 0.0, run.gamma)
    calls = {len(row.calls) for row in run.results}
    if len(calls) > 1:
        yield "results have different numbers of calls: expected the same for all"
    yield from drafting_complaints(run)


def _sweep_complaints(run: SweepRun) -> Iterator[str]:
    if not run.cells and not run.audits:
        yield "cells and audits are empty: expected one or more"
    if (run.alpha_each is None) != (not run.cells):
        yield "alpha_each and cells do not go together: expected both, or neither"
    for i, cell in enumerate(run.cells):
        where = f"cells[{i}]"
        if cell.model.name != cell.result.model:
            yield f"{where}.model.name is {cell.model.name!r}: expected {cell.result.model!r}"
        yield from _result_complaints(cell.result, f"{where}.result")


def _result_complaints(row: CompareResult, where: str) -> Iterator[str]:
    curve = row.acceptance_ccdf
    for name in ("exact", "lower", "upper", "measured"):
        values = getattr(curve, name)
        if values is None:
            continue
        if len(values) != row.gamma:
            yield (
                f"{where}.acceptance_ccdf.{name} has {len(values)} values: expected "
                f"{row.gamma}, one for each l"
            )
        yield from _within_complaints(f"{where}.acceptance_ccdf.{name}", values, 0.0, 1.0)
    expected, measured = row.expected_accepted, row.measured
    numbers = {
        "expected_accepted.exact": expected.exact if expected.exact is not None else 0.0,
        "expected_accepted.lower": expected.lower,
        "expected_accepted.upper": expected.upper,
        "measured.mean": measured.mean,
        "measured.ci_low": measured.ci_low,
        "measured.ci_high": measured.ci_high,
        "optimum.expected_accepted": row.optimum.expected_accepted,
    }
    for name, value in numbers.items():
        yield from _within_complaints(f"{where}.{name}", [value], 0.0, row.gamma)
    yield from _within_complaints(f"{where}.speedup.cost_ratio", [row.speedup.cost_ratio], 0.0, 1e9)
    for k, pit in enumerate(row.lossless.pits):
        if len(pit.differences) < 2:
            yield f"{where}.lossless.pits[{k}].differences has no two values: expected 2 or more"
        yield from _within_complaints(
            f"{where}.lossless.pits[{k}].differences", pit.differences, -1.0, 1.0
        )
        yield from _within_complaints(f"{where}.lossless.pits[{k}].band", [pit.band], 0.0, math.inf)


def _audit_complaints(run: AuditRun) -> Iterator[str]:
    if not run.reproduce.strip():
        yield "reproduce is empty: expected a command"
    for part in ("counterexample", "breach", "trial"):
        shown = getattr(run, part)
        if shown is not None:
            yield from _instance_rows_complaints(shown.instance, f"{part}.instance")
            yield from _tree_shape_complaints(shown.instance, f"{part}.instance")
    breach = run.breach
    if breach is not None and breach.parents is not None:
        yield from parents_complaints(breach.parents, "breach.parents")
        if len(breach.parents) != len(breach.draft_tokens or ()):
            yield (
                f"breach.parents has {len(breach.parents)} nodes: expected "
                f"{len(breach.draft_tokens or ())}, as draft_tokens"
            )
    example = run.counterexample
    if example is None:
        return
    if not example.sequence:
        yield "counterexample.sequence is empty: expected the tokens of an output"
    yield from _output_tree_complaints(example)
    if example.call is not None:
        yield from _draft_call_complaints(example.call, example)
    numbers = {"emitted": example.probability_emitted, "expected": example.probability_expected}
    for name, value in numbers.items():
        yield from _within_complaints(f"counterexample.probability_{name}", [value], 0.0, 1.0)


def _draft_call_complaints(call: DraftCall, found: Counterexample) -> Iterator[str]:
    """A call of a drafter is of its instance, and returns no more tokens than it is asked for."""
    where = "counterexample.call"
    if len(call.reported) != found.instance.vocab_size:
        yield (
            f"{where}.reported has {len(call.reported)} values: expected "
            f"{found.instance.vocab_size}, as counterexample.instance.vocab_size"
        )
    if call.asked < len(found.sequence):
        yield f"{where}.asked is {call.asked}: counterexample.sequence has {len(found.sequence)}"
    after = call.prefix[len(found.instance.prompt) :]
    if ",".join(map(str, after)) not in found.instance.draft_probs:
        yield f"{where}.prefix is {list(call.prefix)}, after which the instance has no draft row"
    yield from _within_complaints(f"{where}.reported", call.reported, 0.0, 1.0)
    yield from _within_complaints(f"{where}.share", [call.share], 0.0, 1.0)


def _instance_rows_complaints(instance: Instance, where: str) -> Iterator[str]:
    if not instance.target_probs:
        yield f"{where}.target_probs is empty: expected a row after each prefix"
    missing = set(instance.target_probs) - set(instance.draft_probs)
    if missing:
        yield (
            f"{where}.draft_probs has no row after {min(missing)!r}: expected one, as in "
            "target_probs"
        )


def _tree_shape_complaints(instance: Instance, where: str) -> Iterator[str]:
    """The shape of draft trees and the scheme of their siblings come together."""
    if (instance.parents is None) != (instance.scheme is None):
        yield f"{where} has one of parents and scheme: expected both, or neither"
    if instance.parents is not None:
        yield from parents_complaints(instance.parents, f"{where}.parents")


def _output_tree_complaints(found: Counterexample) -> Iterator[str]:
    """Branches leave the sequence at its last token at most, each of them once."""
    seen: dict[tuple[int, ...], int] = {}
    for i, branch in enumerate(found.tree):
        where, tokens = f"counterexample.tree[{i}].sequence", branch.sequence
        if not 1 <= len(tokens) <= len(found.sequence):
            yield f"{where} has {len(tokens)} tokens: expected 1 to {len(found.sequence)}"
        elif tokens[:-1] != found.sequence[: len(tokens) - 1]:
            yield f"{where} leaves counterexample.sequence before its last token"
        elif tokens in seen:
            yield f"{where} is that of counterexample.tree[{seen[tokens]}]: expected each once"
        else:
            seen[tokens] = i
        for name in ("probability_emitted", "probability_expected"):
            value = getattr(branch, name)
            yield from _within_complaints(f"counterexample.tree[{i}].{name}", [value], 0.0, 1.0)


def _plan_complaints(run: PlanRun) -> Iterator[str]:
    if len(run.rows) != len(run.meta.row_seconds):
        yield (
            f"meta.row_seconds has {len(run.meta.row_seconds)} values: expected {len(run.rows)}, "
            "one for each row"
        )
    if not run.meta.timings:
        yield "meta.timings is empty: expected the speed that the times rest on"
    if getattr(run, run.asked) is None:
        yield f"{run.asked} is null: expected a number, as asked says"


def _within_complaints(
    name: str, values: Sequence[float], low: float, high: float
) -> Iterator[str]:
    for i, value in enumerate(values):
        if not low - _RANGE_ROUNDING <= value <= high + _RANGE_ROUNDING:
            place = f"[{i}]" if len(values) > 1 else ""
            yield f"{name}{place} is {value:g}: expected {low:g} to {high:g}"


_FIELD_RANGES = {
    **dict.fromkeys(
        ("gamma", "vocab_size", "batch_size", "free_rows", "layer_parallel", "width"),
        (1, math.inf, "1 or more"),
    ),
    **dict.fromkeys(
        (
            "paths",
            "samples",
            "n",
            "blocks",
            "calls",
            "looks",
            "tv",
            "seconds",
            "df",
            "predicted",
            "block_efficiency",
            "blocks_per_second",
            "temperature",
        ),
        (0, math.inf, "0 or more"),
    ),
    **dict.fromkeys(
        ("alpha", "delta", "power", "confidence", "level", "strength", "detect"),
        (5e-324, 1, "above 0, at most 1"),
    ),
    "draft_distance": (0, 1, "0 to 1"),
    "log_pvalue": (-math.inf, 0, "0 or less"),
}
"""By a field's name, wherever it stands: least, most, and that in words."""


def range_complaints(value: object, where: str = "") -> Iterator[str]:
    """Name each number of a document, or of a part of it, that is out of its field's range."""
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from range_complaints(part, f"{where}[{i}]")
    if not isinstance(value, msgspec.Struct):
        return
    for name in value.__struct_fields__:
        part, path = getattr(value, name), f"{where}.{name}" if where else name
        number = isinstance(part, int | float) and not isinstance(part, bool)
        if number and name in _FIELD_RANGES:
            least, most, words = _FIELD_RANGES[name]
            if not least <= part <= most:
                yield f"{path} is {part}: expected {words}"
        yield from range_complaints(part, path)

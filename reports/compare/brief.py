"""A comparison in short: at most two lines under a table, and one sentence at the end."""

from collections.abc import Iterator, Sequence

from simverify.reports.audit.found import count
from simverify.reports.compare.grouped.names import model_names, result_name
from simverify.reports.compare.trees import best_line
from simverify.reports.compare.words import counted
from simverify.reports.words import listed
from simverify.results import (
    ANY_DEVIATION,
    Bounds,
    CompareResult,
    CompareRun,
    Expected,
    ModelInfo,
)

MOST_LINES = 2

_RESTS_ON = {
    "exact": "exact: the rule's own law is the target's; its code passed every test",
    "sampled": "sampled: its code passed every test",
    "output": "output: the tokens that it emitted passed every test",
}


def under(run: CompareRun, model: ModelInfo, rows: Sequence[CompareResult]) -> list[str]:
    """Return what a reader must know of one model's table: what failed, or what it rests on."""
    failed = list(_failed(rows))
    if failed:
        more = len(failed) - (MOST_LINES - 1)
        if more <= 1:
            return failed[:MOST_LINES]
        return [*failed[: MOST_LINES - 1], f"{count(more, 'failure')} more: see --verbose"]
    passed = {row.lossless.tier for row in rows if row.lossless.verdict == "PASS"}
    lines = ["; ".join(words for tier, words in _RESTS_ON.items() if tier in passed)]
    without = [row.verifier for row in rows if not row.lossless.tests]
    if without and lines[0]:
        lines[0] += f" (no compiled code: {listed(without, 3, 30)})"
    if run.drafting is not None:
        return [line for line in (*lines, best_line(rows, model.bounds.coupling)) if line]
    where = bound_words(model.bounds)
    kept = f"{_most(model.bounds.coupling)} of {run.gamma} draft tokens in a first call"
    lines.append(f"no rule can keep more than {kept}{where}")
    return [line for line in lines if line]


def sentence(run: CompareRun) -> str:
    """Return the verdict with its error rate and what it would have found."""
    return f"{run.verdict}: {_ruling(run)}"


def _ruling(run: CompareRun) -> str:
    alarm = f"where all is right, a run says FAIL with probability {run.alpha:g} at most"
    lossy = [row for row in run.results if row.lossless.verdict == "FAIL"]
    if lossy:
        return f"{_those(lossy, run)} not follow the target's distribution; {alarm}."
    strange = [row for row in run.results if row.acceptance.verdict == "FAIL"]
    if strange:
        return (
            f"{_those(strange, run)} not accept as the declared rule does, though nothing says "
            f"that the output is wrong; {alarm}."
        )
    open_ = [row for row in run.results if row.verdict == "INCONCLUSIVE"]
    if open_:
        return f"{_those(open_, run)} not have enough {counted(run)} to be judged; {_remedy(run)}."
    n = len(run.results)
    total = "the result follows" if n == 1 else f"all {n} results follow"
    return (
        f"{total} the target's distribution; {alarm}, and a deviation of {run.detect:g} (total "
        f"variation of a token) is found with probability {run.power:g}{_limits(run)}."
    )


def _limits(run: CompareRun) -> str:
    """Say where a deviation is promised to be found only if it has a certain shape."""
    names = {row.model for row in run.results if row.lossless.deviation != ANY_DEVIATION}
    shaped = [model for model in run.models if model.name in names]
    if not shaped:
        return ""
    return f" (on {model_names(shaped, 3, 24)}: of the shapes that --verbose names)"


def _failed(rows: Sequence[CompareResult]) -> Iterator[str]:
    for row in rows:
        faults, suspect = row.lossless.faults, row.lossless.localisation
        like = f"; it looks like the fault {faults.best.fault}" if faults and faults.best else ""
        part = f"; suspect: {suspect.part}" if suspect and suspect.part and not like else ""
        if row.lossless.findings:
            yield f"FAIL {row.verifier}: {row.lossless.findings[0]}{like}{part}"
        elif row.acceptance.findings:
            yield f"FAIL {row.verifier}, {row.acceptance.words}: {row.acceptance.findings[0]}"


def _remedy(run: CompareRun) -> str:
    if run.decoding is None:
        return "raise --blocks or --detect"
    return "raise --tokens or --detect" if run.decoding.trace is None else "record more tokens"


def _those(rows: Sequence[CompareResult], run: CompareRun) -> str:
    if len(rows) == len(run.results) > 1:
        return f"all {len(rows)} results do"
    names = listed((result_name(run, row, 48) for row in rows), 5, 90)
    return f"{names} {'does' if len(rows) == 1 else 'do'}"


def bound_words(bounds: Bounds) -> str:
    """Return on which blocks the coupling bound was taken; empty for the model's own."""
    if bounds.blocks_of is None:
        return ""
    if bounds.blocks_of == "trace":
        return ", on the recorded blocks"
    return f", on the blocks of {bounds.blocks_of}"


def _most(coupling: Expected) -> str:
    """Return what no rule can keep more of than, in figures."""
    if coupling.method == "counting":
        return f"{coupling.upper:.4g}"
    middle = (coupling.lower + coupling.upper) / 2 if coupling.exact is None else coupling.exact
    return f"{middle:.4g}"

"""What a schema cannot say of a run file: lengths that go together, numbers in their range.

That its verdicts are those of its findings is ``verdicts``'.
"""

import math
from collections.abc import Iterator, Sequence

import msgspec

from simverify.checks import clean
from simverify.errors import UsageError
from simverify.results import (
    AuditRun,
    BisectRun,
    CompareResult,
    CompareRun,
    Counterexample,
    Document,
    DraftCall,
    Instance,
    PlanRun,
    SweepRun,
    TableRun,
)
from simverify.results.reading.drafting import drafting_complaints
from simverify.results.reading.surveys import bisect_complaints, table_complaints
from simverify.results.reading.trees import parents_complaints, tree_complaints
from simverify.results.reading.verdicts import verdict_complaints

_ROUNDING = 1e-6


def check_consistent(run: Document, name: str) -> None:
    """Raise ``UsageError`` that names the first field of ``run`` that fits nothing else."""
    for complaint in _complaints(run):
        said = clean(complaint)
        raise UsageError(f"{name} is not a result document of this version: {said}")


def _complaints(run: Document) -> Iterator[str]:
    yield from out_of_range(run)
    if isinstance(run, CompareRun):
        yield from _comparison(run)
    elif isinstance(run, PlanRun):
        yield from _plan(run)
    elif isinstance(run, AuditRun):
        yield from _audit(run)
    elif isinstance(run, TableRun):
        yield from table_complaints(run)
    elif isinstance(run, BisectRun):
        yield from bisect_complaints(run)
    elif isinstance(run, SweepRun):
        yield from _sweep(run)
    yield from verdict_complaints(run)


def _comparison(run: CompareRun) -> Iterator[str]:
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
        yield from _row(row, where)
        yield from tree_complaints(run, row, where)
    for i, model in enumerate(run.models):
        if model.name not in {row.model for row in run.results}:
            yield f"models[{i}].name is {model.name!r}, which has no result"
        high = model.bounds.coupling.upper
        yield from _within(f"models[{i}].bounds.coupling.upper", [high], 0.0, run.gamma)
    calls = {len(row.calls) for row in run.results}
    if len(calls) > 1:
        yield "results have different numbers of calls: expected the same for all"
    yield from drafting_complaints(run)


def _sweep(run: SweepRun) -> Iterator[str]:
    if not run.cells and not run.audits:
        yield "cells and audits are empty: expected one or more"
    if (run.alpha_each is None) != (not run.cells):
        yield "alpha_each and cells do not go together: expected both, or neither"
    for i, cell in enumerate(run.cells):
        where = f"cells[{i}]"
        if cell.model.name != cell.result.model:
            yield f"{where}.model.name is {cell.model.name!r}: expected {cell.result.model!r}"
        yield from _row(cell.result, f"{where}.result")


def _row(row: CompareResult, where: str) -> Iterator[str]:
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
        yield from _within(f"{where}.acceptance_ccdf.{name}", values, 0.0, 1.0)
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
        yield from _within(f"{where}.{name}", [value], 0.0, row.gamma)
    yield from _within(f"{where}.speedup.cost_ratio", [row.speedup.cost_ratio], 0.0, 1e9)
    for k, pit in enumerate(row.lossless.pits):
        if len(pit.differences) < 2:
            yield f"{where}.lossless.pits[{k}].differences has no two values: expected 2 or more"
        yield from _within(f"{where}.lossless.pits[{k}].differences", pit.differences, -1.0, 1.0)
        yield from _within(f"{where}.lossless.pits[{k}].band", [pit.band], 0.0, math.inf)


def _audit(run: AuditRun) -> Iterator[str]:
    if not run.reproduce.strip():
        yield "reproduce is empty: expected a command"
    for part in ("counterexample", "breach", "trial"):
        shown = getattr(run, part)
        if shown is not None:
            yield from _rows(shown.instance, f"{part}.instance")
            yield from _shape(shown.instance, f"{part}.instance")
    breach = run.breach
    if breach is not None and breach.parents is not None:
        yield from parents_complaints(breach.parents, "breach.parents")
        if len(breach.parents) != len(breach.draft_tokens or ()):
            yield (
                f"breach.parents has {len(breach.parents)} nodes: expected "
                f"{len(breach.draft_tokens or ())}, as draft_tokens"
            )
    found = run.counterexample
    if found is None:
        return
    if not found.sequence:
        yield "counterexample.sequence is empty: expected the tokens of an output"
    yield from _tree(found)
    if found.call is not None:
        yield from _call(found.call, found)
    numbers = {"emitted": found.probability_emitted, "expected": found.probability_expected}
    for name, value in numbers.items():
        yield from _within(f"counterexample.probability_{name}", [value], 0.0, 1.0)


def _call(call: DraftCall, found: Counterexample) -> Iterator[str]:
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
    yield from _within(f"{where}.reported", call.reported, 0.0, 1.0)
    yield from _within(f"{where}.share", [call.share], 0.0, 1.0)


def _rows(instance: Instance, where: str) -> Iterator[str]:
    if not instance.target_probs:
        yield f"{where}.target_probs is empty: expected a row after each prefix"
    missing = set(instance.target_probs) - set(instance.draft_probs)
    if missing:
        yield (
            f"{where}.draft_probs has no row after {min(missing)!r}: expected one, as in "
            "target_probs"
        )


def _shape(instance: Instance, where: str) -> Iterator[str]:
    """The shape of draft trees and the scheme of their siblings come together."""
    if (instance.parents is None) != (instance.scheme is None):
        yield f"{where} has one of parents and scheme: expected both, or neither"
    if instance.parents is not None:
        yield from parents_complaints(instance.parents, f"{where}.parents")


def _tree(found: Counterexample) -> Iterator[str]:
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
            yield from _within(f"counterexample.tree[{i}].{name}", [value], 0.0, 1.0)


def _plan(run: PlanRun) -> Iterator[str]:
    if len(run.rows) != len(run.meta.row_seconds):
        yield (
            f"meta.row_seconds has {len(run.meta.row_seconds)} values: expected {len(run.rows)}, "
            "one for each row"
        )
    if not run.meta.timings:
        yield "meta.timings is empty: expected the speed that the times rest on"
    if getattr(run, run.asked) is None:
        yield f"{run.asked} is null: expected a number, as asked says"


def _within(name: str, values: Sequence[float], low: float, high: float) -> Iterator[str]:
    for i, value in enumerate(values):
        if not low - _ROUNDING <= value <= high + _ROUNDING:
            place = f"[{i}]" if len(values) > 1 else ""
            yield f"{name}{place} is {value:g}: expected {low:g} to {high:g}"


_RANGES = {
    **dict.fromkeys(("gamma", "vocab_size", "batch_size", "free_rows", "layer_parallel", "width"),
                    (1, math.inf, "1 or more")),
    **dict.fromkeys(
        ("paths", "samples", "n", "blocks", "calls", "looks", "tv", "seconds", "df", "predicted",
         "block_efficiency", "blocks_per_second", "temperature"),
        (0, math.inf, "0 or more"),
    ),
    **dict.fromkeys(
        ("alpha", "delta", "power", "confidence", "level", "strength", "detect"),
        (5e-324, 1, "above 0, at most 1"),
    ),
    "draft_distance": (0, 1, "0 to 1"),
    "log_pvalue": (-math.inf, 0, "0 or less"),
}  # fmt: skip
"""By a field's name, wherever it stands: least, most, and that in words."""


def out_of_range(value: object, where: str = "") -> Iterator[str]:
    """Name each number of a document, or of a part of it, that is out of its field's range."""
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from out_of_range(part, f"{where}[{i}]")
    if not isinstance(value, msgspec.Struct):
        return
    for name in value.__struct_fields__:
        part, here = getattr(value, name), f"{where}.{name}" if where else name
        number = isinstance(part, int | float) and not isinstance(part, bool)
        if number and name in _RANGES:
            least, most, words = _RANGES[name]
            if not least <= part <= most:
                yield f"{here} is {part}: expected {words}"
        yield from out_of_range(part, here)

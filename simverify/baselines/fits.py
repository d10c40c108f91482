"""Whether two runs compare: the same question, asked of the same thing."""

from collections.abc import Iterator
from typing import Any

from simverify.errors import UsageError
from simverify.results import AuditRun, CompareRun, Document, ModelInfo, SweepRun

ROUNDING = 1e-9
"""Relative: numbers of one law, computed twice, differ by no more."""

_COMPARE = ("gamma", "eos", "drafting")
_AUDIT = ("spec", "contract", "gamma", "vocab_size", "batch", "company", "scheme", "tree", "pair")
_MODEL = (
    "vocab_size", "file_sha256", "corpus_sha256", "draft_distance", "temperature", "drafter",
)  # fmt: skip
_DECODING = (
    "target", "draft", "prompts_sha256", "request_tokens", "temperature", "top_k", "top_p", "dtype",
    "drafter", "trace_sha256",
)  # fmt: skip


def fit_iv(old: Document, new: Document) -> None:
    """Raise ``UsageError``, in one line that says what differs, if the runs do not compare."""
    told = next(_differences(old, new), None)
    if told is not None:
        raise UsageError(f"the runs do not compare: {told}")


def _differences(old: Document, new: Document) -> Iterator[str]:
    if isinstance(old, CompareRun) and isinstance(new, CompareRun):
        yield from _fields(old, new, _COMPARE, "")
        yield from _fields(old.decoding, new.decoding, _DECODING, "")
        models = {model.name: model for model in new.models}
        for model in old.models:
            if model.name not in models:
                yield f"the baseline has model {model.name}, the run has {', '.join(models)}"
            else:
                yield from model_differences(model, models[model.name])
        rows = [(row.verifier, row.model, row.one_draft) for row in new.results]
        for row in old.results:
            if (row.verifier, row.model, row.one_draft) not in rows:
                there = ", ".join(sorted({verifier for verifier, _, _ in rows}))
                yield f"the baseline has {row.verifier} on {row.model}, the run has {there}"
    elif isinstance(old, AuditRun) and isinstance(new, AuditRun):
        yield from _fields(old, new, _AUDIT, "")
    elif isinstance(old, SweepRun) and isinstance(new, SweepRun):
        yield from _sweeps(old, new)
    else:
        kinds = [str(type(run).__struct_config__.tag) for run in (old, new)]
        yield f"the baseline is of simverify {kinds[0]}, the run of simverify {kinds[1]}"


def _sweeps(old: SweepRun, new: SweepRun) -> Iterator[str]:
    cells = {cell.name: cell for cell in new.cells}
    for cell in old.cells:
        if cell.name not in cells:
            yield f"the baseline has {cell.name}, and the run has not"
        else:
            yield from model_differences(cell.model, cells[cell.name].model)
    names = {audit.name for audit in new.audits}
    for audit in old.audits:
        if audit.name not in names:
            yield f"the baseline has the {audit.name}, and the run has not"


def model_differences(old: ModelInfo, new: ModelInfo) -> Iterator[str]:
    """Yield what tells two models of one name apart."""
    yield from _fields(old, new, _MODEL, f"model {old.name}: ")
    bounds = old.bounds.coupling.exact, new.bounds.coupling.exact
    sampled = old.bounds.blocks_of is not None or new.bounds.blocks_of is not None
    # A bound that depends on the model alone tells two models of one name apart.
    if not sampled and None not in bounds and not alike(*bounds):  # type: ignore[arg-type]
        yield f"model {old.name}: its coupling bound was {bounds[0]:.9g} and is {bounds[1]:.9g}"


def alike(a: float, b: float) -> bool:
    """Whether two numbers are equal but for rounding."""
    return abs(a - b) <= ROUNDING * max(1.0, abs(a), abs(b))


def _fields(old: Any, new: Any, names: tuple[str, ...], where: str) -> Iterator[str]:
    if (old is None) != (new is None):
        which = "baseline" if new is None else "run"
        yield f"{where}only the {which} decoded real models"
        return
    for name in names if old is not None else ():
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            yield f"{where}{name} was {_short(a)} and is {_short(b)}"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

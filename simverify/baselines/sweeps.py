"""Two sweeps, cell by cell: all tests of all cells share one false-alarm rate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from simverify.baselines.comparisons import Pair, judged_rows
from simverify.baselines.fits import model_differences
from simverify.baselines.items import ALPHA, DETECT, Check, Item, Outcome
from simverify.baselines.verdicts import verdict_item
from simverify.results import SweepAudit, SweepCell, SweepRun


@dataclass(frozen=True)
class SweepCheck:
    """The check of what both sweeps have, and the names of what one of them alone has."""

    check: Check
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def sweep_check(
    old: SweepRun, new: SweepRun, alpha: float = ALPHA, detect: float = DETECT
) -> SweepCheck:
    """Hold each cell and audit of ``new`` against the one of its name in ``old``.

    A cell whose model is another one by the same name is not compared, and a note says so.
    """
    cells = {cell.name: cell for cell in old.cells}
    audits = {audit.name: audit for audit in old.audits}
    notes, pairs = [], []
    for cell in new.cells:
        was = cells.get(cell.name)
        if was is None:
            continue
        other = next(model_differences(was.model, cell.model), None)
        if other is not None:
            notes.append(f"{cell.name}: not compared: {other}")
        else:
            pairs.append(Pair(cell.name, was.result, cell.result))
    found = judged_rows(pairs, old.detect, alpha, detect)
    both = [(audits[audit.name], audit) for audit in new.audits if audit.name in audits]
    items = [item for one in both for item in _audit_items(*one)]
    notes += found.notes
    if pairs:
        notes.append("cells of one seed share their draws: differences are no larger for it")
    check = Check(
        (*found.items, *items), alpha, detect, found.tests, found.blocks, found.both, tuple(notes),
        (old.alpha + new.alpha) if pairs else 0.0, cells=len(pairs) + len(both),
    )  # fmt: skip
    named, there = list(_names(old)), list(_names(new))
    return SweepCheck(
        check,
        tuple(name for name in named if name not in set(there)),
        tuple(name for name in there if name not in set(named)),
    )


def _names(run: SweepRun) -> Iterator[str]:
    of: tuple[SweepCell | SweepAudit, ...] = (*run.cells, *run.audits)
    yield from (one.name for one in of)


def _audit_items(old: SweepAudit, new: SweepAudit) -> Iterator[Item]:
    """Yield the verdict of an audit, and how far the law it found is from the target's."""
    item = verdict_item(
        new.name, "lossless", old.verdict or "INCONCLUSIVE", new.verdict or "INCONCLUSIVE"
    )
    if old.state != new.state:
        # Two audits without a verdict may have ended in two ways.
        item = replace(
            item, old=old.verdict or old.state, new=new.verdict or new.state,
            note=new.reason or item.note,
        )  # fmt: skip
    yield item
    a, b = old.max_abs_deviation, new.max_abs_deviation
    if a is None and b is None:
        return
    slack = max(old.tolerance or 0.0, new.tolerance or 0.0)
    # What is within the tolerance is rounding, and moves with the machine.
    was, now = _deviation(a, slack), _deviation(b, slack)
    outcome: Outcome = "same" if was == now else "shown"
    yield Item(new.name, "largest deviation", was, now, outcome)


def _deviation(value: float | None, slack: float) -> str:
    if value is None:
        return "none"
    return f"{slack:g} at most" if value <= slack else f"{value:.3g}"

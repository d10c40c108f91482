"""What differs between two recorded runs, and matters."""

from collections.abc import Iterator
from typing import Any

import msgspec

from simverify.baselines.check import check_baseline
from simverify.baselines.items import Check
from simverify.errors import UsageError
from simverify.record.entry import Entry
from simverify.results import Document, SweepRun

_TOLD = ("command", "title", "verdict", "words", "seed", "version", "machine", "python")


def differences(
    old: tuple[Entry, Document], new: tuple[Entry, Document]
) -> tuple[tuple[str, ...], Check | None]:
    """Return lines that say what differs, and the tests of the two where they compare.

    Documents that are equal but for ``meta`` are said to be, and nothing of them is tested.
    """
    lines = list(_told(old[0], new[0]))
    if _plain(old[1]) == _plain(new[1]):
        return (*lines, "the documents are equal, but for times and machine"), None
    if isinstance(old[1], SweepRun) and isinstance(new[1], SweepRun):
        return (*lines, *_cells(old[1], new[1])), None
    try:
        return tuple(lines), check_baseline(old[1], new[1])
    except UsageError as error:
        return (*lines, str(error)), None


def _told(old: Entry, new: Entry) -> Iterator[str]:
    for name in _TOLD:
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            what = "command line" if name == "words" else name
            yield f"{what}: {_or_none(a)} -> {_or_none(b)}"
    a, b = old.code_sha256, new.code_sha256
    if a != b:
        yield f"code: {(a or 'unknown')[:12]} -> {(b or 'unknown')[:12]}"


def _cells(old: SweepRun, new: SweepRun) -> Iterator[str]:
    """Yield the cells and audits whose verdict changed, or that only one of the sweeps has."""
    before, after = _verdicts(old), _verdicts(new)
    for name in before | after:
        a, b = before.get(name, "not there"), after.get(name, "not there")
        if a != b:
            yield f"{name}: {a} -> {b}"


def _verdicts(run: SweepRun) -> dict[str, str]:
    """Return the verdict of each cell and audit by its name."""
    found = {cell.name: str(cell.result.verdict) for cell in run.cells}
    return found | {audit.name: str(audit.verdict or "no verdict") for audit in run.audits}


def _or_none(value: object) -> object:
    return "none" if value in (None, "") else value


def _plain(run: Document) -> Any:
    plain = msgspec.to_builtins(run)
    return {key: value for key, value in plain.items() if key != "meta"}

"""What is done of a sweep, by its folder alone."""

from pathlib import Path

from simverify.errors import UsageError
from simverify.sweeping.folder import DOCUMENT, Folder
from simverify.sweeping.state import AuditState, CellState


def status(out: Path) -> list[str]:
    """Return what is done of the sweep in a folder, a line each.

    Raises ``UsageError`` if it holds none.
    """
    if out.is_file():
        raise UsageError(f"{out} is a file: name the folder that --out named")
    folder = Folder(out)
    begun = folder.begun()
    if begun is None:
        raise UsageError(f"{out} holds no sweep: name the folder that --out named")
    spec = begun.spec
    cells = judged = shards = damaged = 0
    for state in (CellState(cell, spec, folder) for cell in spec.cells()):
        cells += 1
        judged += state.result is not None
        shards += state.finished
        damaged += state.damaged
    ended = 0
    for audit in (AuditState(one, folder) for one in spec.audit_cells()):
        ended += audit.result is not None
        damaged += audit.damaged
    shards += ended
    total = spec.number_of_shards
    lines = [f"shards: {shards:,} of {total:,} done"]
    if cells:
        lines.append(f"cells: {judged:,} of {cells:,} judged")
    if spec.audits:
        lines.append(f"audits: {ended:,} of {sum(1 for _ in spec.audit_cells()):,} ended")
    if damaged:
        lines.append(f"damaged records: {damaged:,}, which the next run does again")
    whole = (out / DOCUMENT).is_file()
    lines.append(f"document: {out / DOCUMENT}" if whole else "document: not yet")
    lines.append("a run is in the folder now" if folder.in_use else "no run is in the folder")
    return lines

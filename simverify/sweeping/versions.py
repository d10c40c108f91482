"""What a sweep's numbers come from: versions, and the files that cells name.

With others it does not go on, and no worker has others.
"""

import hashlib
import os
import platform
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from simverify.errors import UsageError
from simverify.folders import find_source, own_sources_sha256
from simverify.results import SweepVersions
from simverify.sweeping.cells import AuditCell, Cell


@lru_cache(maxsize=1)
def versions() -> SweepVersions:
    """Return the versions in use here."""
    return SweepVersions(
        simverify=version("simverify"),
        code=own_sources_sha256(),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=version("numpy"),
        numba=version("numba"),
        scipy=version("scipy"),
    )


def difference(there: SweepVersions, here: SweepVersions) -> str:
    """Return in words what differs first of two that are not the same."""
    for name in SweepVersions.__struct_fields__:
        one, other = getattr(there, name), getattr(here, name)
        if one != other and name != "code":
            return f"{name} {one} there, {other} here"
    return "other code of simverify there"


def named_by(cell: Cell | AuditCell) -> str:
    """Return what a cell names its model, or the file or module of its SPEC, by."""
    return cell.spec.rpartition(":")[0] if isinstance(cell, AuditCell) else cell.model


def file_of_model(name: str) -> Path | None:
    """Return the file that a model is; None for one that is none."""
    return Path(name) if name.endswith((".json", ".npz")) else None


def sha256(path: Path) -> str | None:
    """Return the SHA-256 of a file; None where it cannot be read."""
    try:
        told = os.stat(path)
        return _sha256(path.resolve(), told.st_mtime_ns, told.st_size, told.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _sha256(path: Path, *_told: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def same_file_iv(cell: Cell | AuditCell, expected: str | None) -> None:
    """Raise ``UsageError`` unless the cell's file is the one with the SHA-256 ``expected``.

    A worker on another machine has a file of its own by that name, and files change meanwhile.
    """
    if expected is None:
        return
    file = find_source(cell.spec) if isinstance(cell, AuditCell) else file_of_model(cell.model)
    found = None if file is None else sha256(file)
    if found == expected:
        return
    there = "none that can be read" if found is None else f"one with SHA-256 {found[:12]}"
    raise UsageError(
        f"{named_by(cell)}: the sweep began with a file with SHA-256 {expected[:12]}, and a worker "
        f"has {there}: give every worker the same file, and let it be while they work"
    )

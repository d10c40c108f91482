"""The folder of baselines: a run file each, under its name."""

import os
import re
from pathlib import Path

from simverify.errors import UsageError
from simverify.results import AuditRun, CompareRun, Document, SweepRun
from simverify.results.reading.document import document_text, read_document, write_whole

Comparable = CompareRun | AuditRun | SweepRun
"""What can be a baseline."""

FOLDER = Path(".simverify") / "baselines"
"""Where baselines are kept, in the working directory, unless a folder is named."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def place(name: str, folder: Path) -> Path:
    """Return the file of the baseline ``name``.

    Raises ``UsageError`` for a name that could leave the folder or that some system refuses.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"baseline name {name!r}: expected letters, digits, '.', '_' and '-', 100 at most, "
            "with a letter or a digit first"
        )
    return folder / f"{name}.json"


def save(name: str, run: Document, folder: Path) -> Path:
    """Keep ``run`` as the baseline ``name``, whole or not at all; return its file.

    Raises ``UsageError`` for a bad name, a run of another kind, or a folder that cannot be written.
    """
    path = place(name, folder)
    comparable(run, "the run")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made a folder: {error.strerror}") from None
    write_whole(path, document_text(run))
    return path


def read(name: str, folder: Path) -> Comparable:
    """Read the baseline ``name``; ``UsageError`` if there is none, with those that there are."""
    path = place(name, folder)
    if not os.path.exists(path):
        try:
            names = sorted(file.stem for file in folder.glob("*.json"))
        except OSError:
            names = []
        there = f"there are {', '.join(names[:10])}" if names else "there is none yet"
        raise UsageError(
            f"no baseline {name!r} in {folder}: {there}; keep one with simverify baseline save"
        )
    return comparable(read_document(path), str(path))


def comparable(run: Document, where: str) -> Comparable:
    """Return ``run`` if it can be a baseline, or be held against one."""
    if isinstance(run, Comparable):
        return run
    kind = type(run).__struct_config__.tag
    raise UsageError(
        f"{where} is of simverify {kind}: baselines are of compare, sweep, or audit of code"
    )

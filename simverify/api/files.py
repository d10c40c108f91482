"""``simverify.load``: a run file, as ``run.save`` and ``--json`` write it."""

from os import PathLike
from pathlib import Path

from simverify.results import Document
from simverify.results.reading.document import read_document


def load(path: str | PathLike[str]) -> Document:
    """Read a run file of any command.

    Returns
    -------
    AuditRun, CompareRun, OutputRun, PlanRun or SelfTestRun
        The run: ``print`` shows it, ``run.report(folder)`` renders it.

    Raises
    ------
    UsageError
        If it cannot be read, or is broken or of another version; the message names the field.
    """
    return read_document(Path(path))

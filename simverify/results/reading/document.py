"""The result document as a file: written whole or not at all."""

import errno
import os
import stat
import tempfile
from os import PathLike
from pathlib import Path

import msgspec

from simverify.checks import clean
from simverify.errors import UsageError
from simverify.results import (
    AgainstRun,
    AuditRun,
    BisectRun,
    CompareRun,
    Document,
    MatrixRun,
    OutputRun,
    PlanRun,
    SelfTestRun,
    SweepRun,
    TableRun,
    TriageRun,
    WatchRun,
)
from simverify.results.reading.consistent import check_consistent
from simverify.results.reading.decoding import decode, not_finite


def document_text(run: Document) -> str:
    """JSON text of a run, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2).decode() + "\n"


def read_document(path: Path) -> Document:
    """Read a result document.

    Raises ``UsageError`` that names the field if it is broken or of another version.
    """
    try:
        data = path.read_bytes()
        document = decode(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        why = clean(next(not_finite(data), str(error)))
        raise UsageError(f"{path} is not a result document of this version: {why}") from None
    check_consistent(document, str(path))
    return document


def read_audit(path: Path) -> AuditRun:
    """Read an audit's result document.

    Raises ``UsageError`` that names the field if it is broken or of another kind.
    """
    document = read_document(path)
    if not isinstance(document, AuditRun):
        kinds = {
            CompareRun: "a comparison", SelfTestRun: "a self-test", PlanRun: "a plan",
            AgainstRun: "two engines against each other, which has no path to replay",
            OutputRun: "an audit of emitted tokens, which has no path to replay",
            TriageRun: "a triage of two logs", WatchRun: "a watch",
            TableRun: "a table of engines", BisectRun: "a bisection", SweepRun: "a sweep",
            MatrixRun: "a matrix of parameters",
        }  # fmt: skip
        kind = kinds[type(document)]
        raise UsageError(f"{path} holds {kind}: expected an audit")
    return document


def load(path: str | PathLike[str]) -> Document:
    """Read a run file of any command.

    Returns
    -------
    AgainstRun, AuditRun, BisectRun, CompareRun, MatrixRun, OutputRun, PlanRun, SelfTestRun,
    SweepRun, TableRun, TriageRun or WatchRun
        The run: ``print`` shows it, ``run.report(folder)`` renders it.

    Raises
    ------
    UsageError
        If it cannot be read, or is broken or of another version; the message names the field.
    """
    return read_document(Path(path))


def check_writable(path: Path) -> None:
    """Raise ``UsageError`` unless a file can be made at ``path``; nothing is left behind."""
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file")
        mode = _mode(path)
        if mode is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if mode is None or stat.S_ISREG(mode):
            if mode is not None and _is_output(path):
                raise UsageError(f'{path} is standard output itself: use "-" to write there')
            with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
                pass
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content`` to ``path`` so that a reader sees the old file or all of the new one.

    Text is written as UTF-8. A file that is replaced keeps its permissions; a new one gets the
    usual ones. A symbolic link is followed. A device or a pipe cannot be replaced and is
    written to. Raises ``UsageError`` if it cannot be written; then nothing is left behind.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            # Renaming a file onto /dev/null, as root, would take the device away from everyone.
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".simverify-")
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.chmod(0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
        temporary.replace(target)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _is_output(path: Path) -> bool:
    # The file would be replaced under its own writer, and what is printed be lost.
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def _umask() -> int:
    # It can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    return umask

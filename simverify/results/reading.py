"""Result documents as files: read, checked, written whole or not at all; and their schema."""

import errno
import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from inspect import cleandoc
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from simverify.checks import clean_line
from simverify.errors import UsageError
from simverify.results import Document
from simverify.results.audit import AuditRun
from simverify.results.compare import CompareRun, PlanRun
from simverify.results.consistency import check_consistent
from simverify.results.served import AgainstRun, MatrixRun, OutputRun, TriageRun, WatchRun
from simverify.results.surveys import BisectRun, SelfTestRun, SweepRun, TableRun

# A result document from its bytes: earlier versions too, and what is wrong with broken ones.


Plain = dict[str, Any]
"""A JSON object."""


def decode_document(data: bytes) -> Document:
    """Return the document in ``data``, which may be older than the kinds of findings.

    Raises ``msgspec.DecodeError`` if it is broken or of another version.
    """
    try:
        document: Document = msgspec.json.decode(data, type=Document)
    except msgspec.ValidationError:
        older = msgspec.json.decode(data)
        if not (isinstance(older, dict) and older.get("command") == "audit"):
            raise
        document = msgspec.convert(add_finding_kinds(older), Document)
    return document


def add_finding_kinds(run: Plain) -> Plain:
    """Return an audit's document, as plain JSON, with a kind for every finding that has none.

    They were texts, and those of the probes that failed came first.
    """
    probes = run.get("probes")
    failed = [p for p in probes if _is_failed_probe(p)] if isinstance(probes, list) else []
    tier = run.get("sampled")
    of_tests = tier.get("findings") if isinstance(tier, dict) else None
    test_findings = of_tests if isinstance(of_tests, list) else []

    def kind(place: int, text: str) -> str:
        return "probe" if place < len(failed) else "tests" if text in test_findings else "other"

    new = run | {"findings": _as_findings(run.get("findings"), kind)}
    if isinstance(tier, dict):
        new["sampled"] = tier | {"findings": _as_findings(of_tests, lambda _place, _text: "tests")}
    return new


def _is_failed_probe(probe: Any) -> bool:
    return isinstance(probe, dict) and (
        probe.get("failed") is True or probe.get("outcome") == "violation"
    )


def _as_findings(findings: Any, kind: Callable[[int, str], str]) -> Any:
    if not isinstance(findings, list):
        return findings
    return [
        {"kind": kind(i, found), "text": found} if isinstance(found, str) else found
        for i, found in enumerate(findings)
    ]


def non_finite_fields(data: bytes) -> Iterator[str]:
    """Name each field of a JSON text that holds NaN or an infinity.

    A strict reader says no more than the byte at which it stopped. Yields nothing where the
    text is broken in another way.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    left: list[tuple[str, object]] = [("", document)]
    while left:
        where, value = left.pop()
        if isinstance(value, dict):
            parts = [(f"{where}.{key}" if where else key, part) for key, part in value.items()]
            left += reversed(parts)
        elif isinstance(value, list):
            left += reversed([(f"{where}[{i}]", part) for i, part in enumerate(value)])
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{where} is {value}: expected a finite number, or null where the schema has one"


def document_text(run: Document) -> str:
    """JSON text of a run, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2).decode() + "\n"


def read_document(path: Path) -> Document:
    """Read a result document.

    Raises ``UsageError`` that names the field if it is broken or of another version.
    """
    try:
        data = path.read_bytes()
        document = decode_document(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        why = clean_line(next(non_finite_fields(data), str(error)))
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
            CompareRun: "a comparison",
            SelfTestRun: "a self-test",
            PlanRun: "a plan",
            AgainstRun: "two engines against each other, which has no path to replay",
            OutputRun: "an audit of emitted tokens, which has no path to replay",
            TriageRun: "a triage of two logs",
            WatchRun: "a watch",
            TableRun: "a table of engines",
            BisectRun: "a bisection",
            SweepRun: "a sweep",
            MatrixRun: "a matrix of parameters",
        }
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
        mode = _file_mode(path)
        if mode is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if mode is None or stat.S_ISREG(mode):
            if mode is not None and _is_standard_output(path):
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
        mode = _file_mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            # Renaming a file onto /dev/null, as root, would take the device away from everyone.
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".simverify-")
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.chmod(0o666 & ~_current_umask() if mode is None else stat.S_IMODE(mode))
        temporary.replace(target)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _file_mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _is_standard_output(path: Path) -> bool:
    # The file would be replaced under its own writer, and what is printed be lost.
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def _current_umask() -> int:
    # It can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    return umask


# The JSON Schema, generated from the structs and shipped as a file.


SCHEMA_FILE = "schema.json"


def generate_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the result document."""
    # As JSON has it: an empty tuple that is a default becomes a list.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Document)))
    for struct in schema["$defs"].values():
        # msgspec before 0.23 leaves the docstring's indent.
        struct["description"] = cleandoc(struct["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def shipped_schema() -> str:
    """Text of the schema that this version ships."""
    return files("simverify.results").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def schema_text() -> str:
    """Generated schema as the text of the shipped file."""
    text = msgspec.json.format(msgspec.json.encode(generate_schema()), indent=2).decode()
    return text + "\n"

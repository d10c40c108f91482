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
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from simverify.checks import clean_line
from simverify.errors import UsageError
from simverify.options.option import Range
from simverify.results import AuditRun, Document
from simverify.results.common import ROUNDING
from simverify.results.registry import document_kinds, document_type, kind_of

# A result document from its bytes: earlier versions too, and what is wrong with broken ones.


Plain = dict[str, Any]
"""A JSON object."""


def decode_document(data: bytes) -> Document:
    """Return the document in ``data``, which may be older than the kinds of findings.

    Raises ``msgspec.DecodeError`` if it is broken or of another version.
    """
    try:
        document: Document = msgspec.json.decode(data, type=document_type())
    except msgspec.ValidationError:
        older = msgspec.json.decode(data)
        if not (isinstance(older, dict) and older.get("command") == "audit"):
            raise
        document = msgspec.convert(_add_finding_kinds(older), document_type())
    return document


def _add_finding_kinds(run: Plain) -> Plain:
    """Return an audit's document, as plain JSON, with a kind for every finding that has none.

    They were texts, and those of the probes that failed came first.
    """
    probes, tier = run.get("probes"), run.get("sampled")
    failed = sum(
        isinstance(probe, dict)
        and (probe.get("failed") is True or probe.get("outcome") == "violation")
        for probe in (probes if isinstance(probes, list) else ())
    )
    of_tests = tier.get("findings") if isinstance(tier, dict) else None
    test_findings = of_tests if isinstance(of_tests, list) else []

    def kind(place: int, text: str) -> str:
        return "probe" if place < failed else "tests" if text in test_findings else "other"

    new = run | {"findings": _as_findings(run.get("findings"), kind)}
    if isinstance(tier, dict):
        new["sampled"] = tier | {"findings": _as_findings(of_tests, lambda _place, _text: "tests")}
    return new


def _as_findings(findings: Any, kind: Callable[[int, str], str]) -> Any:
    if not isinstance(findings, list):
        return findings
    return [
        {"kind": kind(i, entry), "text": entry} if isinstance(entry, str) else entry
        for i, entry in enumerate(findings)
    ]


def _bad_fields(data: bytes) -> Iterator[str]:
    """Name each field of a JSON text that is no number, or out of its range, in full.

    A strict reader says no more than the byte at which it stopped, and not what it got. Yields
    nothing where the text is broken in another way.
    """
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return
    yield from _non_finite_fields(plain)
    if isinstance(plain, dict):
        for kind in document_kinds():
            if plain.get("command") == kind.command:
                yield from _out_of_range(msgspec.inspect.type_info(kind.struct), plain, "")


def _non_finite_fields(document: object) -> Iterator[str]:
    left: list[tuple[str, object]] = [("", document)]  # a file may be nested deeper than calls
    while left:
        where, value = left.pop()
        if isinstance(value, dict):
            parts = [(f"{where}.{key}" if where else key, part) for key, part in value.items()]
            left += reversed(parts)
        elif isinstance(value, list):
            left += reversed([(f"{where}[{i}]", part) for i, part in enumerate(value)])
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{where} is {value}: expected a finite number, or null where the schema has one"


def _out_of_range(kind: Any, value: Any, where: str) -> Iterator[str]:
    """Name each part of ``value`` that is out of the range of its type ``kind``."""
    least = getattr(kind, "min_length", None) or 0
    match kind, value:
        case msgspec.inspect.Metadata(), _:
            yield from _out_of_range(kind.type, value, where)
        case msgspec.inspect.UnionType(), _:
            for one in kind.types:
                yield from _out_of_range(one, value, where)
        case msgspec.inspect.StructType(), dict():
            for field in kind.fields:
                if field.encode_name in value:
                    path = f"{where}.{field.encode_name}" if where else field.encode_name
                    yield from _out_of_range(field.type, value[field.encode_name], path)
        case ((msgspec.inspect.VarTupleType() | msgspec.inspect.DictType()), (list() | dict())):
            if not value and least == 1:
                yield f"{where} is empty: expected one or more"
            elif len(value) < least:
                yield f"{where} has {len(value)} values: expected {least} or more"
            if isinstance(value, list) and isinstance(kind, msgspec.inspect.VarTupleType):
                for i, part in enumerate(value):
                    yield from _out_of_range(kind.item_type, part, f"{where}[{i}]")
        case ((msgspec.inspect.IntType() | msgspec.inspect.FloatType()), (int() | float())):
            low, high, above, below = limits = (kind.ge, kind.le, kind.gt, kind.lt)
            if not isinstance(value, bool) and not Range(low, high, above, below).holds(value):
                low, high, above, below = map(_rounded_limit, limits)
                yield f"{where} is {value}: expected {Range(low, high, above, below)}"


def _rounded_limit(limit: float | None) -> float | None:
    """Return a limit without the rounding that it leaves room for."""
    near = None if limit is None else round(limit)
    return near if near is not None and abs(near - (limit or 0)) < 2 * ROUNDING else limit


def document_text(run: Document) -> str:
    """JSON text of a run, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2).decode() + "\n"


def read_text(data: bytes, name: str) -> Document:
    """Return the document in ``data``, which errors call ``name``.

    Raises ``UsageError`` that names the field if it is broken or of another version.
    """
    try:
        document = decode_document(data)
    except msgspec.DecodeError as error:
        raise _refusal(name, next(_bad_fields(data), str(error))) from None
    check_consistent(document, name)
    return document


def check_consistent(run: Document, name: str) -> None:
    """Raise ``UsageError`` that names the first field of ``run`` that fits nothing else."""
    kind = kind_of(run)
    for complaint in chain(kind.check(run), kind.verdicts(run)):
        raise _refusal(name, complaint)


def _refusal(name: str, why: str) -> UsageError:
    return UsageError(f"{name} is not a result document of this version: {clean_line(why)}")


def read_document(path: Path) -> Document:
    """Read a result document.

    Raises ``UsageError`` that names the field if it is broken or of another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}; expected a result file, which --json or "
            "--report of a command writes"
        ) from None
    return read_text(data, str(path))


def read_audit(path: Path) -> AuditRun:
    """Read an audit's result document.

    Raises ``UsageError`` that names the field if it is broken or of another kind.
    """
    document = read_document(path)
    if not isinstance(document, AuditRun):
        words = kind_of(document).words
        raise UsageError(f"{path} holds {words}, which has no path to replay: expected an audit")
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
    os.umask(umask := os.umask(0))
    return umask


# The JSON Schema, generated from the structs and shipped as a file.


SCHEMA_FILE = "schema.json"


def generate_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the result document."""
    # As JSON has it: an empty tuple that is a default becomes a list.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(document_type())))
    for struct in schema["$defs"].values():
        # msgspec before 0.23 leaves the docstring's indent.
        struct["description"] = cleandoc(struct["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def shipped_schema() -> str:
    """Text of the schema that this version ships."""
    return files("simverify.results").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def schema_text() -> str:
    """Generated schema as the text of the shipped file."""
    return msgspec.json.format(msgspec.json.encode(generate_schema()), indent=2).decode() + "\n"

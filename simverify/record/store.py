"""The store itself: one SQLite file, which many processes may write to."""

import hashlib
import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

from simverify.checks import pick
from simverify.errors import UsageError
from simverify.record.code import Code
from simverify.record.entry import Entry, entry_of
from simverify.record.schema import NAMES, make_table, opened, read_columns
from simverify.results import Document, Verdict
from simverify.results.reading.consistent import check_consistent
from simverify.results.reading.decoding import decode
from simverify.results.reading.document import document_text

VARIABLE = "SIMVERIFY_RUNS"
"""The environment variable that names the store; empty for none."""

STORE = Path(".simverify") / "runs.db"
"""The store that is used where the variable is not set, if ``simverify runs init`` made one."""

_MOST = 2**63 - 1
"""The largest of SQLite's integers."""

_COMMANDS = tuple(str(kind.__struct_config__.tag) for kind in get_args(Document))

_TEXTS = (
    "title", "words", "version", "machine", "document_sha256", "code_sha256", "code",
    "sources_sha256", "host", "system", "processor", "gpu", "packages",
)  # fmt: skip
"""What a search looks into."""

_NUMBERS = ("seed", "cores", "memory")
"""Kept as texts: SQLite's integers have a sign, and a seed has 64 bits."""


def store_path() -> Path | None:
    """Return the store that runs are recorded in: the variable's, or the folder's if it is there.

    None where there is none; nothing is made unasked.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return STORE if STORE.exists() else None


def init(path: Path) -> None:
    """Make an empty store, or leave the one that is there.

    Raises ``UsageError`` if it cannot be made, or what is there is no store.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent} cannot be made a folder: {error.strerror}") from None
    with opened(path, "rwc") as store:
        make_table(store)


def check_store(path: Path) -> None:
    """Raise ``UsageError`` before a long run if it could not be recorded; makes the store."""
    init(path)
    with opened(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        store.execute("ROLLBACK")


def add(path: Path, run: Document, words: Sequence[str] = ()) -> int:
    """Record a run; return its number. ``words``: the command line."""
    text = document_text(run)
    entry = entry_of(run, text, words)
    marks = ", ".join("?" * (len(NAMES) + 1))
    with opened(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        done = store.execute(
            f"INSERT INTO runs ({', '.join(NAMES)}, document) VALUES ({marks})",
            [*_values(entry), zlib.compress(text.encode(), 6)],
        )
        store.execute("COMMIT")
        return int(done.lastrowid or 0)


def runs(
    store: str | os.PathLike[str] | None = None,
    *,
    search: str | None = None,
    verdict: str | None = None,
    command: str | None = None,
    since: str | None = None,
    limit: int | None = None,
) -> tuple[Entry, ...]:
    """Return recorded runs, the newest first.

    Parameters
    ----------
    store
        Its file; by default the one that SIMVERIFY_RUNS names, or .simverify/runs.db here.
    search
        Text in the title, the command line, a version, a package as in "torch 2.13", the machine,
        the host, the code or a hash, in any case.
    verdict, command
        As the document has them, in any case.
    since
        A day or a time, as 2026-01-31, in UTC unless it says otherwise: those that started then or
        later.
    limit
        At most so many; all if None.

    Raises
    ------
    UsageError
        If there is no store, or it is broken or of another version; if a verdict, a command or a
        day is none.
    """
    path = (store_path() or STORE) if store is None else Path(store)
    rules: list[str] = ["1"]
    values: list[str | int] = []
    if search is not None:
        found = " OR ".join(f"instr(casefold({{{name}}}), ?)" for name in _TEXTS)
        rules.append(f"({found})")
        values += [_text_iv("search", search).casefold()] * len(_TEXTS)
    if verdict is not None:
        rules.append("verdict = ?")
        values.append(pick(verdict.upper(), get_args(Verdict), "verdict"))
    if command is not None:
        rules.append("command = ?")
        values.append(pick(command.lower(), _COMMANDS, "command of a run"))
    if since is not None:
        rules.append("started >= ?")
        values.append(_since(since))
    values.append(-1 if limit is None else min(limit, _MOST))
    where = " AND ".join(rules)
    with opened(path, "ro") as found_store:
        columns = read_columns(found_store)
        query = (
            f"SELECT id, {', '.join(columns.values())} FROM runs WHERE {where.format(**columns)}"
        )
        rows = found_store.execute(f"{query} ORDER BY id DESC LIMIT ?", values).fetchall()
    return tuple(_entry(row, path) for row in rows)


def get(path: Path, number: int) -> tuple[Entry, Document]:
    """Return a recorded run and its document.

    Raises ``UsageError`` if there is none of this number, or its document does not have its hash.
    """
    with opened(path, "ro") as store:
        columns = ", ".join(read_columns(store).values())
        query = f"SELECT id, {columns}, document FROM runs WHERE id = ?"
        row = store.execute(query, [number]).fetchone() if abs(number) < 2**63 else None
    if row is None:
        raise UsageError(f"{path} has no run {number}: simverify runs lists them")
    entry = _entry(row[:-1], path)
    try:
        text = zlib.decompress(row[-1])
        if hashlib.sha256(text).hexdigest() != entry.document_sha256:
            raise UsageError(f"{path}: the document of run {number} does not have its hash")
        document = decode(text)
    except (zlib.error, TypeError) as error:
        raise UsageError(f"{path}: the document of run {number} is broken: {error}") from None
    except msgspec.DecodeError as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: run {number} is not of this version: {why}") from None
    check_consistent(document, f"{path}, run {number},")
    return entry, document


def _text_iv(name: str, text: str) -> str:
    """Return ``text``, which the store could hold; words from a shell need not be UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} is {text!r}, which is not UTF-8: no run has it") from None
    return text


def _since(text: str) -> str:
    """Return a day or a time as runs have theirs, so that their order is that of the texts."""
    try:
        told = datetime.fromisoformat(text)
        told = told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"since is {text!r}: expected a day, as 2026-01-31") from None
    # A day alone comes before all of its times, however they are written.
    return told.isoformat() if any(told.timetuple()[3:6]) else told.date().isoformat()


def _values(entry: Entry) -> list[str | None]:
    """Return the columns of an entry; packages in lines, so that a search finds their versions."""
    told = {name: getattr(entry, name) for name in NAMES}
    told |= {name: None if told[name] is None else str(told[name]) for name in _NUMBERS}
    told["code"] = msgspec.json.encode(entry.code).decode()
    told["packages"] = "\n".join(f"{name} {found}" for name, found in entry.packages.items())
    return list(told.values())


def _entry(row: tuple[object, ...], path: Path) -> Entry:
    told = dict(zip(("id", *NAMES), row, strict=True))
    try:
        for name in _NUMBERS:
            if told[name] is not None:
                told[name] = int(str(told[name]))
        told["code"] = msgspec.json.decode(str(told["code"] or "[]"))
        lines = str(told["packages"] or "").splitlines()
        told["packages"] = dict(line.split(" ", 1) for line in lines)
        entry = msgspec.convert(told, Entry)
    except ValueError as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: what is kept of run {row[0]} is damaged: {why}") from None
    if entry.code_sha256 is not None and not entry.code:
        # An older simverify knew the hash alone.
        return replace(entry, code=(Code(entry.title, entry.code_sha256),))
    return entry

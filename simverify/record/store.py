"""The store itself: one SQLite file, which many processes may write to."""

import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

from simverify.checks import pick
from simverify.errors import UsageError
from simverify.record.entry import Entry, entry_of
from simverify.results import Document, Verdict
from simverify.results.reading.consistent import check_consistent
from simverify.results.reading.decoding import decode
from simverify.results.reading.document import document_text

VARIABLE = "SIMVERIFY_RUNS"
"""The environment variable that names the store; empty for none."""

STORE = Path(".simverify") / "runs.db"
"""The store that is used where the variable is not set, if ``simverify runs init`` made one."""

_VERSION = 1
_APPLICATION = 0x51567231
_WAIT = 60.0
"""Seconds that a writer waits for others."""

_MOST = 2**63 - 1
"""The largest of SQLite's integers."""

_COMMANDS = tuple(str(kind.__struct_config__.tag) for kind in get_args(Document))
_NAMES = tuple(field.name for field in fields(Entry) if field.name != "id")
_COLUMNS = ", ".join(f"{name} TEXT" for name in _NAMES)
_TABLE = f"CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, {_COLUMNS}, document BLOB)"


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
    with _opened(path, "rwc") as store:
        store.execute("BEGIN IMMEDIATE")
        # Two processes may both have found an empty file; the second finds the table.
        if not store.execute("PRAGMA user_version").fetchone()[0]:
            store.execute(_TABLE)
            store.execute(f"PRAGMA application_id = {_APPLICATION}")
            store.execute(f"PRAGMA user_version = {_VERSION}")
        store.execute("COMMIT")


def check_store(path: Path) -> None:
    """Raise ``UsageError`` before a long run if it could not be recorded; makes the store."""
    init(path)
    with _opened(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        store.execute("ROLLBACK")


def add(path: Path, run: Document, words: Sequence[str] = ()) -> int:
    """Record a run; return its number. ``words``: the command line."""
    text = document_text(run)
    entry = entry_of(run, text, words)
    # SQLite's integers have a sign, and a seed has 64 bits.
    values = [str(v) if name == "seed" and v is not None else v for name, v in _pairs(entry)]
    marks = ", ".join("?" * (len(_NAMES) + 1))
    with _opened(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        done = store.execute(
            f"INSERT INTO runs ({', '.join(_NAMES)}, document) VALUES ({marks})",
            [*values, zlib.compress(text.encode(), 6)],
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
        Text in the title, the command line, the version, the machine or a hash, in any case.
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
        texts = ("title", "words", "version", "machine", "document_sha256", "code_sha256")
        found = " OR ".join(f"instr(casefold({name}), ?)" for name in texts)
        rules.append(f"({found})")
        values += [_text_iv("search", search).casefold()] * len(texts)
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
    query = f"SELECT id, {', '.join(_NAMES)} FROM runs WHERE {' AND '.join(rules)}"
    with _opened(path, "ro") as opened:
        rows = opened.execute(f"{query} ORDER BY id DESC LIMIT ?", values).fetchall()
    return tuple(_entry(row, path) for row in rows)


def get(path: Path, number: int) -> tuple[Entry, Document]:
    """Return a recorded run and its document.

    Raises ``UsageError`` if there is none of this number, or its document does not have its hash.
    """
    with _opened(path, "ro") as store:
        query = f"SELECT id, {', '.join(_NAMES)}, document FROM runs WHERE id = ?"
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


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open a store; what SQLite says of a broken one becomes one line."""
    store = None
    try:
        if path.is_dir():
            raise UsageError(f"the run store {path} is a folder: name a file")
        if mode != "rwc" and not path.exists():
            raise UsageError(f"there is no run store {path}: make one with simverify runs init")
        address = f"{path.absolute().as_uri()}?mode={mode}"
        store = sqlite3.connect(address, timeout=_WAIT, uri=True, isolation_level=None)
        store.create_function("casefold", 1, _casefold, deterministic=True)
        _check(store, path, mode == "rwc")
        yield store
    except (sqlite3.Error, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"the run store {path} cannot be used: {why}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the run store {path} is damaged: {error}") from None
    finally:
        if store is not None:
            store.close()


def _check(store: sqlite3.Connection, path: Path, making: bool) -> None:
    version = store.execute("PRAGMA user_version").fetchone()[0]
    mark = store.execute("PRAGMA application_id").fetchone()[0]
    if making and not (version or mark):
        tables = store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables:
            return
    if mark != _APPLICATION:
        raise UsageError(f"{path} is not a run store: name another file")
    if version != _VERSION:
        raise UsageError(
            f"the run store {path} has version {version}, this simverify knows {_VERSION}: "
            "use the simverify that made it"
        )


def _pairs(entry: Entry) -> list[tuple[str, object]]:
    return [(name, getattr(entry, name)) for name in _NAMES]


def _casefold(text: object) -> str:
    return str(text or "").casefold()


def _entry(row: tuple[object, ...], path: Path) -> Entry:
    told = dict(zip(("id", *_NAMES), row, strict=True))
    try:
        if told["seed"] is not None:
            told["seed"] = int(str(told["seed"]))
        return msgspec.convert(told, Entry)
    except ValueError as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: what is kept of run {row[0]} is damaged: {why}") from None

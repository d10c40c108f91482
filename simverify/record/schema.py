"""The tables of a store, their version, and opening one: an older store is brought up to date."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from simverify.errors import UsageError
from simverify.record.entry import Entry

VERSION = 2
"""Version 1 knew one hash of code, and of the machine its system alone."""

NAMES = tuple(field.name for field in fields(Entry) if field.name != "id")
"""Columns of a run, beside its number and its document."""

_SINCE_2 = (
    "code", "sources_sha256", "host", "system", "processor", "cores", "memory", "gpu", "packages",
)  # fmt: skip
_APPLICATION = 0x51567231
_WAIT = 60.0
"""Seconds that a writer waits for others."""


def make_table(store: sqlite3.Connection) -> None:
    """Make the table of an empty store, or leave the one that is there."""
    store.execute("BEGIN IMMEDIATE")
    # Two processes may both have found an empty file; the second finds the table.
    if not _version(store):
        columns = ", ".join(f"{name} TEXT" for name in NAMES)
        store.execute(
            f"CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns}, document BLOB)"
        )
        store.execute(f"PRAGMA application_id = {_APPLICATION}")
        store.execute(f"PRAGMA user_version = {VERSION}")
    store.execute("COMMIT")


def read_columns(store: sqlite3.Connection) -> dict[str, str]:
    """Return how each column is read: of an older store, which reading does not change, as null."""
    there = {row[1] for row in store.execute("PRAGMA table_info(runs)")}
    return {name: name if name in there or name not in _SINCE_2 else "NULL" for name in NAMES}


@contextmanager
def opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open a store; what SQLite says of a broken one becomes one line."""
    store = None
    try:
        if path.is_dir():
            raise UsageError(f"the run store {path} is a folder: name a file")
        if mode != "rwc" and not path.exists():
            raise UsageError(f"there is no run store {path}: make one with simverify runs init")
        address = f"{path.absolute().as_uri()}?mode={mode}"
        store = sqlite3.connect(address, timeout=_WAIT, uri=True, isolation_level=None)
        store.create_function("casefold", 1, casefold, deterministic=True)
        # At one moment: between two looks another process may have made the table.
        store.execute("BEGIN")
        _check(store, path, mode == "rwc")
        store.execute("ROLLBACK")
        if mode != "ro" and _version(store) == 1:
            _bring_up_to_date(store)
        yield store
    except (sqlite3.Error, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"the run store {path} cannot be used: {why}; put a copy in its place, or name another"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the run store {path} is damaged: {error}; put a copy in its place, or name another"
        ) from None
    finally:
        if store is not None:
            store.close()


def _check(store: sqlite3.Connection, path: Path, making: bool) -> None:
    version = _version(store)
    mark = store.execute("PRAGMA application_id").fetchone()[0]
    if making and not (version or mark):
        tables = store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables:
            return
    if mark != _APPLICATION:
        raise UsageError(f"{path} is not a run store: name another file")
    if version not in (1, VERSION):
        raise UsageError(
            f"the run store {path} has version {version}, this simverify knows {VERSION}: "
            "use the simverify that made it"
        )


def _bring_up_to_date(store: sqlite3.Connection) -> None:
    """Add what version 1 did not have, all or nothing: what it holds stays where it is."""
    store.execute("BEGIN IMMEDIATE")
    if _version(store) == 1:  # another process may have been first
        for name in _SINCE_2:
            store.execute(f"ALTER TABLE runs ADD COLUMN {name} TEXT")
        store.execute(f"PRAGMA user_version = {VERSION}")
    store.execute("COMMIT")


def _version(store: sqlite3.Connection) -> int:
    return int(store.execute("PRAGMA user_version").fetchone()[0])


def casefold(text: object) -> str:
    """Return a text as searches compare it."""
    return str(text or "").casefold()

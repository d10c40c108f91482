"""The record of runs: one SQLite file, which many processes may write to.

Each run is recorded with its code, its machine and its document.
"""

import hashlib
import importlib.util
import os
import platform
import shlex
import socket
import sqlite3
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

import msgspec

from simverify.checks import clean_line, pick_name
from simverify.errors import UsageError
from simverify.folders import (
    DEFAULT_STORE,
    distribution_of,
    find_source,
    simverify_sources_sha256,
    store_path,
)
from simverify.history.baseline import Check, check_baseline, make_folder, sweep_check
from simverify.results import AuditRun, Document, Meta, SweepRun, Verdict
from simverify.results.reading import document_text, read_text
from simverify.results.registry import document_kinds, kind_of
from simverify.verifiers import VERIFIERS

# The code that a run was about: its file, hash and package.


class RecordedCode(msgspec.Struct, frozen=True):
    """Code under audit, as it was when the run was recorded.

    ``sha256``: of its file; null where none could be found. ``package``: what it belongs to and
    its version, "" where that is not known. ``commit``: of the checkout that an engine was loaded
    from.
    """

    spec: str
    sha256: str | None = None
    package: str = ""
    commit: str | None = None


def audited_code(run: Document) -> tuple[RecordedCode, ...]:
    """Return what ``run`` was about, but for rules of simverify itself; no code is loaded."""
    if isinstance(run, AuditRun) and run.bridge is not None:
        return tuple(_code_of_bridge(run.bridge.library, run.bridge.command))
    checkout = getattr(run, "checkout", None)
    return tuple(code for spec in run.specs for code in _code_of_spec(spec, checkout))


def _code_of_spec(spec: str, checkout: str | None) -> Iterator[RecordedCode]:
    """Yield what a SPEC names: an engine's function, a function in a module, or one in a file."""
    if ":" not in spec:
        yield from _code_of_engine(spec, checkout)
        return
    path, module = find_source(spec), spec.rpartition(":")[0]
    known = None if module.endswith(".py") else distribution_of(module.partition(".")[0])
    package = "" if known is None else " ".join(known)
    yield RecordedCode(clean_line(spec, 200), None if path is None else _sha256(path), package)


def _code_of_engine(name: str, checkout: str | None) -> Iterator[RecordedCode]:
    if name in VERIFIERS:
        return
    # Half a second, which an audit of an engine has spent already.
    from simverify.engines import engine_names, unloaded_engine
    from simverify.engines.base import locate_engine

    if name not in engine_names():
        return
    engine = unloaded_engine(name)
    place = locate_engine(engine, [] if checkout is None else [Path(checkout)])
    known = engine.provider if place is not None and place.folder is None else None
    called = engine.distribution or engine.package if known is None else known[0]
    if place is None:
        yield RecordedCode(name, None, called)
    else:
        package = f"{called} {place.version}" if place.version else called
        yield RecordedCode(name, _sha256(place.file), package, place.commit)


def _code_of_bridge(library: str | None, command: str | None) -> Iterator[RecordedCode]:
    """Yield the library of a bridge, or the files that its command line names."""
    if library is not None:
        yield RecordedCode(clean_line(library, 200), _sha256(Path(library.rpartition(":")[0])))
    try:
        words = shlex.split(command or "")
    except ValueError:
        words = []
    for word in words:
        if digest := _sha256(Path(word)):
            yield RecordedCode(clean_line(word, 200), digest)


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except (OSError, ValueError):
        return None


# The machine of a run and what is installed there, for the record and for bug reports.


RECORDED_PACKAGES = (
    "numpy",
    "scipy",
    "statsmodels",
    "numba",
    "hypothesis",
    "torch",
    "transformers",
    "triton",
    "dask",
    "distributed",
)
"""What numbers may depend on, and who counted them."""

_CPUINFO = Path("/proc/cpuinfo")


def this_machine() -> dict[str, Any]:
    """Return an entry's facts of this machine; nothing is imported, and no GPU is woken, for it."""
    from simverify.simulators.run import default_threads

    versions = {name: installed_version(name) for name in RECORDED_PACKAGES}
    return {
        "host": socket.gethostname(),
        "system": system_name(),
        "processor": processor_name(),
        "cores": default_threads(),
        "memory": memory_bytes(),
        "gpu": _current_gpu(),
        "packages": {name: version for name, version in versions.items() if version is not None},
    }


def system_name() -> str:
    """Return the operating system with its release."""
    return platform.platform(terse=True)


def processor_name() -> str:
    """Return the model of the processor, or its kind where nothing says more."""
    with suppress(OSError):
        for line in _CPUINFO.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return " ".join(value.split())
    return platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Return the bytes of memory of the machine; None where the system does not say."""
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    return pages * page if pages > 0 and page > 0 else None


def memory_words(size: int | None) -> str:
    """Return a memory in words."""
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"


def gpu_names() -> list[str]:
    """Return the GPUs that torch can use; torch is imported."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _current_gpu() -> str:
    torch = sys.modules.get("torch")
    try:
        return ", ".join(gpu_names()) if torch is not None and torch.cuda.is_initialized() else ""
    except Exception:  # a broken torch is no reason to lose a record
        return ""


def installed_version(package: str) -> str | None:
    """Return the version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None if importlib.util.find_spec(package) is None else "unknown version"


# A recorded run: what is known of it beside its document.


@dataclass(frozen=True)
class Entry:
    """A recorded run.

    ``title``: what it was about. ``words``: its command line; empty for a file that was added.
    ``verdict``: null of a plan. ``started``: in UTC, as the document says; of a sweep when it was
    recorded. ``document_sha256``: of the document as its file holds it. ``code_sha256``: of the
    file under audit; null where it is not one that could be found. ``code``: each piece of code
    that the run was about, which is none for simverify's own rules. ``sources_sha256``: of
    simverify's own sources, as they were.

    ``host`` and what stands below it is of the machine that the run was on: null of a file that
    was added, and of what an older simverify recorded. ``memory``: in bytes. ``gpu``: those that
    the run used. ``packages``: versions by name.
    """

    id: int
    started: str
    command: str
    title: str
    verdict: str | None
    words: str
    seed: int | None
    version: str
    machine: str
    python: str
    document_sha256: str
    code_sha256: str | None = None
    code: tuple[RecordedCode, ...] = ()
    sources_sha256: str | None = None
    host: str | None = None
    system: str | None = None
    processor: str | None = None
    cores: int | None = None
    memory: int | None = None
    gpu: str | None = None
    packages: dict[str, str] = field(default_factory=dict)


def make_entry(run: Document, text: str, words: Sequence[str]) -> Entry:
    """Return the entry of a run whose document is ``text``; its id is still 0."""
    meta: Meta | None = getattr(run, "meta", None)
    if meta is None:
        # A sweep, which may have come from many times and machines: now and here. Half a second,
        # which no other run has to wait for.
        from simverify.battery.battery import start_meta

        meta = start_meta()()
    # Of a file that was added, nobody knows what the code was at its time, nor the machine.
    facts: dict[str, Any] = {}
    if words:
        code = audited_code(run)
        facts = {
            "code": code,
            "code_sha256": code[0].sha256 if len(code) == 1 else None,
            "sources_sha256": simverify_sources_sha256(),
            **this_machine(),
        }
    return Entry(
        id=0,
        started=meta.started,
        command=kind_of(run).command,
        title=clean_line(run.headline, 200),
        verdict=getattr(run, "verdict", None),
        words=clean_line(shlex.join(words), 2000) if words else "",
        seed=getattr(run, "seed", None),
        version=meta.version,
        machine=meta.machine,
        python=meta.python,
        document_sha256=hashlib.sha256(text.encode()).hexdigest(),
        **facts,
    )


# Differences between two recorded runs that matter.


_COMPARED_FIELDS = ("command", "title", "verdict", "words", "seed", "version", "machine", "python")
_HASH_DIGITS = 12
"""Figures of a hash."""

_MAX_CELL_NAMES = 10
"""Cells that one of two sweeps alone has, each in a line."""


def run_differences(
    old: tuple[Entry, Document], new: tuple[Entry, Document], *, verbose: bool = False
) -> tuple[tuple[str, ...], Check | None]:
    """Return lines that say what differs, and the tests of the two where they compare.

    Documents that are equal but for ``meta`` are said to be, and nothing of them is tested.
    ``verbose``: name every cell that one of two sweeps alone has.
    """
    lines = list(_entry_differences(old[0], new[0]))
    first, second = (msgspec.to_builtins(run) | {"meta": None} for run in (old[1], new[1]))
    if first == second:
        return (*lines, "the documents are equal, but for times and machine"), None
    try:
        if isinstance(old[1], SweepRun) and isinstance(new[1], SweepRun):
            comparison = sweep_check(old[1], new[1])
            for names, which in ((comparison.only_old, "first"), (comparison.only_new, "second")):
                shown = names if verbose else names[:_MAX_CELL_NAMES]
                lines += [f"{name}: in the {which} run alone" for name in shown]
                if rest := len(names) - len(shown):
                    lines.append(f"{rest:,} more in the {which} run alone: --verbose")
            return tuple(lines), comparison.check
        return tuple(lines), check_baseline(old[1], new[1])
    except UsageError as error:
        return (*lines, str(error)), None


def _entry_differences(old: Entry, new: Entry) -> Iterator[str]:
    for name in _COMPARED_FIELDS:
        what = "command line" if name == "words" else name
        yield from _change_line(what, getattr(old, name), getattr(new, name))
    if (old.host is None) != (new.host is None):
        which = "second" if old.host is None else "first"
        yield f"machine and packages: known of the {which} run alone"
    elif old.host is not None:
        for name in _MACHINE_COLUMNS[:-1]:
            a, b = getattr(old, name), getattr(new, name)
            shown = (memory_words(a), memory_words(b)) if name == "memory" else (a, b)
            yield from _change_line(name, *shown)
        for name in old.packages | new.packages:
            yield from _change_line(name, old.packages.get(name), new.packages.get(name))
    sources = old.sources_sha256, new.sources_sha256
    if None not in sources:
        yield from _change_line("sources of simverify", *sources, _HASH_DIGITS)
    before = {code.spec: code for code in old.code}
    for code in new.code:
        was = before.get(code.spec)
        if was is not None:
            yield from _change_line(f"code of {code.spec}", was.sha256, code.sha256, _HASH_DIGITS)
            yield from _change_line(f"package of {code.spec}", was.package, code.package)
            yield from _change_line(f"commit of {code.spec}", was.commit, code.commit)
    if bool(old.code) != bool(new.code):
        one, which = (old.code, "first") if old.code else (new.code, "second")
        yield f"code: known of the {which} run alone, {(one[0].sha256 or 'no hash')[:_HASH_DIGITS]}"


def _change_line(what: str, old: object, new: object, longest: int | None = None) -> Iterator[str]:
    if old != new:
        a, b = ("none" if x in (None, "") else str(x)[:longest] for x in (old, new))
        yield f"{what}: {a} -> {b}"


# The tables of a store, their version, and opening one; older stores are upgraded.


STORE_VERSION = 2
"""Version 1 knew one hash of code, and of the machine its system alone."""

RUN_COLUMNS = tuple(field.name for field in fields(Entry) if field.name != "id")
"""Columns of a run, beside its number and its document."""

_MACHINE_COLUMNS = ("host", "system", "processor", "cores", "memory", "gpu", "packages")
_VERSION_2_COLUMNS = ("code", "sources_sha256", *_MACHINE_COLUMNS)
_APPLICATION_ID = 0x51567231
_LOCK_TIMEOUT = 60.0
"""Seconds that a writer waits for others."""


def read_columns(store: sqlite3.Connection) -> dict[str, str]:
    """Return how each column is read: of an older store, which reading does not change, as null."""
    missing = {*_VERSION_2_COLUMNS} - {row[1] for row in store.execute("PRAGMA table_info(runs)")}
    return {name: "NULL" if name in missing else name for name in RUN_COLUMNS}


@contextmanager
def open_store(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open a store; what SQLite says of a broken one becomes one line."""
    store = None
    try:
        if path.is_dir():
            raise UsageError(f"the run store {path} is a folder: name a file")
        if mode != "rwc" and not path.exists():
            raise UsageError(f"there is no run store {path}: make one with simverify runs init")
        address = f"{path.absolute().as_uri()}?mode={mode}"
        store = sqlite3.connect(address, timeout=_LOCK_TIMEOUT, uri=True, isolation_level=None)
        store.create_function("casefold", 1, casefold, deterministic=True)
        # At one moment: between two looks another process may have made the table.
        store.execute("BEGIN")
        _check_version(store, path, mode == "rwc")
        store.execute("ROLLBACK")
        if mode != "ro" and _store_version(store) == 1:
            _upgrade_store(store)
        yield store
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        why = f"cannot be used: {error.strerror if isinstance(error, OSError) else error}"
        if isinstance(error, UnicodeDecodeError):
            why = f"is damaged: {error}"
        raise UsageError(
            f"the run store {path} {why}; put a copy in its place, or name another"
        ) from None
    finally:
        if store is not None:
            store.close()


def _check_version(store: sqlite3.Connection, path: Path, making: bool) -> None:
    version = _store_version(store)
    mark = store.execute("PRAGMA application_id").fetchone()[0]
    if making and not (version or mark):
        tables = store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables:
            return
    if mark != _APPLICATION_ID:
        raise UsageError(f"{path} is not a run store: name another file")
    if version not in (1, STORE_VERSION):
        raise UsageError(
            f"the run store {path} has version {version}, this simverify knows {STORE_VERSION}: "
            "use the simverify that made it"
        )


def _upgrade_store(store: sqlite3.Connection) -> None:
    """Add what version 1 did not have, all or nothing: what it holds stays where it is."""
    store.execute("BEGIN IMMEDIATE")
    if _store_version(store) == 1:  # another process may have been first
        for name in _VERSION_2_COLUMNS:
            store.execute(f"ALTER TABLE runs ADD COLUMN {name} TEXT")
        store.execute(f"PRAGMA user_version = {STORE_VERSION}")
    store.execute("COMMIT")


def _store_version(store: sqlite3.Connection) -> int:
    return int(store.execute("PRAGMA user_version").fetchone()[0])


def casefold(text: object) -> str:
    """Return a text as searches compare it."""
    return str(text or "").casefold()


# The store itself: where it lies, adding a run, finding runs.


_MAX_INTEGER = 2**63 - 1
"""The largest of SQLite's integers."""

_NUMBER_COLUMNS = ("seed", "cores", "memory")
"""Kept as texts: SQLite's integers have a sign, and a seed has 64 bits."""

_SEARCHED_COLUMNS = (
    *("title", "words", "version", "machine", "document_sha256", "code_sha256"),
    *(name for name in _VERSION_2_COLUMNS if name not in _NUMBER_COLUMNS),
)
"""What a search looks into."""


def init_store(path: Path) -> None:
    """Make an empty store, or leave the one that is there.

    Raises ``UsageError`` if it cannot be made, or what is there is no store.
    """
    make_folder(path.parent)
    with open_store(path, "rwc") as store:
        store.execute("BEGIN IMMEDIATE")
        # Two processes may both have found an empty file; the second finds the table.
        if not _store_version(store):
            columns = ", ".join(f"{name} TEXT" for name in RUN_COLUMNS)
            names = f"id INTEGER PRIMARY KEY AUTOINCREMENT, {columns}, document BLOB"
            store.execute(f"CREATE TABLE runs ({names})")
            store.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            store.execute(f"PRAGMA user_version = {STORE_VERSION}")
        store.execute("COMMIT")


def check_store(path: Path) -> None:
    """Raise ``UsageError`` before a long run if it could not be recorded; makes the store."""
    init_store(path)
    with open_store(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        store.execute("ROLLBACK")


def add_run(path: Path, run: Document, words: Sequence[str] = ()) -> int:
    """Record a run; return its number. ``words``: the command line."""
    text = document_text(run)
    entry = make_entry(run, text, words)
    marks = ", ".join("?" * (len(RUN_COLUMNS) + 1))
    with open_store(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        done = store.execute(
            f"INSERT INTO runs ({', '.join(RUN_COLUMNS)}, document) VALUES ({marks})",
            [*_column_values(entry), zlib.compress(text.encode(), 6)],
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
    path = (store_path() or DEFAULT_STORE) if store is None else Path(store)
    rules: list[str] = ["1"]
    values: list[str | int] = []
    if search is not None:
        try:
            search.encode()
        except UnicodeEncodeError:  # words from a shell need not be UTF-8
            raise UsageError(f"search is {search!r}, which is not UTF-8: no run has it") from None
        condition = " OR ".join(f"instr(casefold({{{name}}}), ?)" for name in _SEARCHED_COLUMNS)
        rules.append(f"({condition})")
        values += [search.casefold()] * len(_SEARCHED_COLUMNS)
    if verdict is not None:
        rules.append("verdict = ?")
        values.append(pick_name(verdict.upper(), get_args(Verdict), "verdict"))
    if command is not None:
        rules.append("command = ?")
        commands = [kind.command for kind in document_kinds()]
        values.append(pick_name(command.lower(), commands, "command of a run"))
    if since is not None:
        rules.append("started >= ?")
        values.append(_parse_since(since))
    values.append(-1 if limit is None else min(limit, _MAX_INTEGER))
    where = " AND ".join(rules)
    with open_store(path, "ro") as found_store:
        columns = read_columns(found_store)
        query = (
            f"SELECT id, {', '.join(columns.values())} FROM runs WHERE {where.format(**columns)}"
        )
        rows = found_store.execute(f"{query} ORDER BY id DESC LIMIT ?", values).fetchall()
    return tuple(_entry_from_row(row, path) for row in rows)


def get_run(path: Path, number: int) -> tuple[Entry, Document]:
    """Return a recorded run and its document.

    Raises ``UsageError`` if there is none of this number, or its document does not have its hash.
    """
    with open_store(path, "ro") as store:
        columns = ", ".join(read_columns(store).values())
        query = f"SELECT id, {columns}, document FROM runs WHERE id = ?"
        row = store.execute(query, [number]).fetchone() if abs(number) < 2**63 else None
    if row is None:
        raise UsageError(f"{path} has no run {number}: simverify runs lists them")
    entry = _entry_from_row(row[:-1], path)
    try:
        text = zlib.decompress(row[-1])
        if hashlib.sha256(text).hexdigest() != entry.document_sha256:
            raise UsageError(f"{path}: the document of run {number} does not have its hash")
    except (zlib.error, TypeError) as error:
        raise UsageError(f"{path}: the document of run {number} is broken: {error}") from None
    return entry, read_text(text, f"{path}, run {number},")


def _parse_since(text: str) -> str:
    """Return a day or a time as runs have theirs, so that their order is that of the texts."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"since is {text!r}: expected a day, as 2026-01-31") from None
    # A day alone comes before all of its times, however they are written.
    return moment.isoformat() if any(moment.timetuple()[3:6]) else moment.date().isoformat()


def _column_values(entry: Entry) -> list[str | None]:
    """Return the columns of an entry; packages in lines, so that a search finds their versions."""
    columns = {name: getattr(entry, name) for name in RUN_COLUMNS}
    for name in _NUMBER_COLUMNS:
        columns[name] = None if columns[name] is None else str(columns[name])
    columns["code"] = msgspec.json.encode(entry.code).decode()
    columns["packages"] = "\n".join(f"{name} {found}" for name, found in entry.packages.items())
    return list(columns.values())


def _entry_from_row(row: tuple[object, ...], path: Path) -> Entry:
    columns = dict(zip(("id", *RUN_COLUMNS), row, strict=True))
    try:
        for name in _NUMBER_COLUMNS:
            if columns[name] is not None:
                columns[name] = int(str(columns[name]))
        columns["code"] = msgspec.json.decode(str(columns["code"] or "[]"))
        lines = str(columns["packages"] or "").splitlines()
        columns["packages"] = dict(line.split(" ", 1) for line in lines)
        entry = msgspec.convert(columns, Entry)
    except ValueError as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: what is kept of run {row[0]} is damaged: {why}") from None
    if entry.code_sha256 is not None and not entry.code:
        # An older simverify knew the hash alone.
        return replace(entry, code=(RecordedCode(entry.title, entry.code_sha256),))
    return entry

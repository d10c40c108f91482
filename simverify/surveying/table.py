"""The table: every installed engine audited, side by side."""

import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, structs
from msgspec.structs import replace as replace_struct

from simverify import results as doc
from simverify.battery.battery import start_meta
from simverify.checks import check_ranges, clean_line
from simverify.engines import ENGINES, Engine, engine_names, unloaded_engine
from simverify.engines.base import SourceLocation, file_sha256, locate_engine
from simverify.errors import UsageError
from simverify.options.option import words_of
from simverify.options.surveys import SizeOptions
from simverify.results import AuditRun, LeastShare
from simverify.results.reading import document_text, read_audit, write_whole
from simverify.results.surveys import State

# One audit in its own process, with a time limit: its document, or why there is none.


_VERDICT_BY_EXIT_CODE = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}
_REFUSED_EXIT_CODES = (2, 4)
"""Exit codes of an audit that could not begin and said why."""

_CRASH_PREFIXES = ("internal error", "out of memory")
"""The message of an audit that broke by itself begins so."""

_DIE_WITH_PARENT = """\
import sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
"""
"""On Linux the child ends with this process, which a CI may kill."""

_AUDIT_PROGRAM = f"""{_DIE_WITH_PARENT}
from simverify.cli import main
main()
"""
"""The command line."""

_ENGINE_PROGRAM = f"""{_DIE_WITH_PARENT}
import json
from simverify.engines import get_engine
engine = get_engine(sys.argv[1])
with open(sys.argv[2], "w") as file:
    json.dump([engine.gamma, engine.vocab, engine.here.note], file)
"""
"""Loads an engine of another distribution in its own process, and writes what it declares."""

_LOAD_SECONDS = 30.0
"""Time limit of that program."""

_DROPPED_VARIABLES = ("SIMVERIFY_AUDIT_", "SIMVERIFY_RUNS", "GITHUB_STEP_SUMMARY")
"""Variables that are meant for the caller's own audits, not for those of a survey."""


@dataclass(frozen=True)
class AuditOutcome:
    """The result of an audit.

    ``run``: where ``state`` is "judged"; else ``reason`` says why not, in a line. ``exit_code``: of
    the process, negative where a signal ended it; None where it was stopped. ``note``: what the
    engine says of how its code was run.
    """

    state: State
    run: AuditRun | None
    reason: str
    exit_code: int | None
    seconds: float
    note: str = ""


class AuditProcesses(AbstractContextManager["AuditProcesses"]):
    """The processes of a survey; leaving the block ends all that still run."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all that run, and start no more."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill_process_group(process)

    def audit(
        self,
        words: Sequence[str],
        limit: float,
        *,
        python_path: Sequence[Path] = (),
        python: str = sys.executable,
    ) -> AuditOutcome:
        """Run ``simverify audit`` with these words; ``limit``: seconds of wall clock.

        ``python_path``: folders that are searched first. No setting of the folder or of the
        environment reaches it.
        """
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="simverify-") as scratch:
            folder = Path(scratch)
            (folder / "pyproject.toml").touch()  # the nearest one, with nothing in it
            file = folder / "run.json"
            command = [python, "-P", "-c", _AUDIT_PROGRAM, "audit", *words, "--json", str(file)]
            code = self._run(command, folder, limit, python_path)
            seconds = time.monotonic() - began
            complaint = _last_line(folder / "said")
            audited = _read_outcome(code, file, complaint, limit, seconds)
        if audited.run is None or str(file) not in audited.run.reproduce:
            return audited
        # The run file is gone by now, so it cannot be replayed.
        run = structs.replace(audited.run, reproduce=shlex.join(["simverify", "audit", *words]))
        return replace(audited, run=run)

    def said_by(self, name: str, limit: float) -> tuple[int | None, int | None, str]:
        """Return the gamma, vocab and note that an engine of another distribution declares.

        None, None and "" if the engine does not load; its audit will say why.
        """
        with tempfile.TemporaryDirectory(prefix="simverify-") as scratch:
            folder = Path(scratch)
            file = folder / "said.json"
            command = [sys.executable, "-P", "-c", _ENGINE_PROGRAM, name, str(file)]
            code = self._run(command, folder, min(limit, _LOAD_SECONDS))
            if code is None or not file.exists():
                return None, None, ""
            gamma, vocab, note = json.loads(file.read_text(encoding="utf-8"))
            return gamma, vocab, note

    def _run(
        self, command: Sequence[str], folder: Path, limit: float, python_path: Sequence[Path] = ()
    ) -> int | None:
        """Run a command in ``folder``, which gets what it says; None if ``limit`` ended it."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED_VARIABLES)}
        path = [*map(str, python_path), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        with (folder / "said").open("wb") as output:
            with self._lock:
                if self._closed:
                    raise KeyboardInterrupt
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    start_new_session=True,
                )
                self._running.add(process)
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with self._lock:
                    self._running.discard(process)
                    _kill_process_group(process)
                process.wait()


def _kill_process_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started, whether or not it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _read_outcome(
    code: int | None, file: Path, complaint: str, limit: float, seconds: float
) -> AuditOutcome:
    def ended(state: State, reason: str, run: AuditRun | None = None) -> AuditOutcome:
        return AuditOutcome(state, run, reason, code, seconds)

    if code is None:
        advice = "raise --limit, or lower --gamma or --vocab"
        return ended("out of time", f"not done within {limit:g} s: {advice}")
    if code in _REFUSED_EXIT_CODES and not file.exists():
        broke = complaint.startswith(_CRASH_PREFIXES)
        return ended("crashed" if broke else "not loaded", complaint or "it does not say why")
    if code not in _VERDICT_BY_EXIT_CODE or not file.exists():
        how = f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return ended("crashed", f"{how}: {complaint}" if complaint else how)
    try:
        run = read_audit(file)
    except UsageError as error:
        return ended("crashed", clean_line(str(error)))
    if run.verdict != _VERDICT_BY_EXIT_CODE[code]:
        return ended("crashed", f"exit code {code} with the verdict {run.verdict}")
    return ended("judged", run.inconclusive or "", run)


def _last_line(file: Path) -> str:
    """Return the last line that a process said, without the name that it begins with."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 8192))
        lines = stream.read().decode(errors="replace").splitlines()
    nonblank = [line for line in lines if line.strip()]
    return clean_line(nonblank[-1].removeprefix("simverify: ")) if nonblank else ""


# Settings of the audits: sizes, limits, how many at a time.


MAX_JOBS = 256


def audit_words(sizes: SizeOptions, engine: Engine | None = None) -> list[str]:
    """Return the options of an audit of these sizes; of an engine's, they are its own at most."""
    given: dict[str, int | float | None] = {
        name: min(
            (size for x in (sizes, engine) if (size := getattr(x, name, None)) is not None),
            default=None,
        )
        for name in ("gamma", "vocab")
    }
    given |= {"seconds": sizes.seconds, "seed": sizes.seed}
    return [word for name, value in given.items() for word in words_of(name, value)]


def size_words(sizes: SizeOptions) -> list[str]:
    """Return the options that make these sizes, where they are no defaults."""
    default, words = SizeOptions(), []
    for name in SizeOptions.names():
        value = getattr(sizes, name)
        if value != getattr(default, name):
            words += words_of(name, f"{value:g}" if name == "limit" else value)
    return words


@dataclass(frozen=True)
class TableSettings:
    """How a table is made.

    ``engines``: names; None for all. ``folders``: checkouts, or folders of checkouts. ``jobs``:
    audits at a time; None for one a core. ``audits``: a folder for each audit's own document.
    """

    sizes: SizeOptions
    engines: tuple[str, ...] | None = None
    folders: tuple[Path, ...] = ()
    jobs: int | None = None
    audits: Path | None = None

    def __post_init__(self) -> None:
        jobs = self.jobs
        check_ranges((("jobs", jobs, jobs is None or 1 <= jobs <= MAX_JOBS, f"1 to {MAX_JOBS}"),))
        for folder in self.folders:
            if not folder.is_dir():
                what = "is a file" if folder.is_file() else "does not exist"
                raise UsageError(f"{folder} {what}: name a checkout, or a folder of checkouts")
        names = self.engines or ()
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"engine {name!r} is named twice: name each once")

    @property
    def at_a_time(self) -> int:
        """So many audits run side by side."""
        from simverify.simulators.run import default_threads

        return self.jobs or default_threads()

    def command(self) -> str:
        """Return the command that makes the table again, run where the checkouts are."""
        words = ["simverify", "table"]
        words += ["--engines", ",".join(self.engines)] if self.engines else []
        if self.folders:
            words += ["--engine-path", ",".join(folder.name or "." for folder in self.folders)]
        return shlex.join([*words, *size_words(self.sizes)])


# Rows of the table, from an engine and its audit.


StrippedStruct = TypeVar("StrippedStruct", doc.Finding, doc.Localisation)


def absent_row(engine: Engine, *, asked: bool, missing: Sequence[str] = ()) -> doc.EngineRow:
    """Return the row of an engine that is not here; ``asked``: it was named.

    ``missing``: what it needs besides its package.
    """
    lacks = missing or (("an NVIDIA GPU",) if engine.gpu else ())
    return doc.EngineRow(
        engine=engine.name,
        package=engine.repository or engine.distribution or engine.package,
        function=engine.function,
        file=engine.file,
        contract=engine.contract,
        how_to_get=engine.how_to_get,
        found=None,
        version=None,
        commit=None,
        sha256=None,
        state="not loaded" if asked else "absent",
        verdict=None,
        reason=f"needs {' and '.join(lacks)}: {engine.how_to_get}" if lacks else "not here",
        exit_code=None,
    )


def audited_row(engine: Engine, place: SourceLocation, audited: AuditOutcome) -> doc.EngineRow:
    """Return the row of an engine whose audit has ended, one way or another."""
    row = absent_row(engine, asked=False)
    provider = engine.provider if place.folder is None else None
    row = replace_struct(
        row,
        package=row.package if provider is None else provider[0],
        found="installed" if place.folder is None else "checkout",
        version=place.version,
        commit=place.commit,
        sha256=file_sha256(place.file),
        state=audited.state,
        reason=strip_folder(audited.reason, place.top),
        exit_code=audited.exit_code,
    )
    run = audited.run
    if run is None:
        return row
    deviations = [one.max_abs_deviation for one in run.instances]
    return replace_struct(
        row,
        verdict=run.verdict,
        contract=run.contract,
        tier="coins" if run.tier == "exact" and engine.here.tier == "coins" else run.tier,
        instances=len(run.instances),
        paths=run.paths,
        tolerance=run.tolerance,
        max_abs_deviation=max(deviations, default=None),
        certificate=None if run.sampled is None else run.sampled.certificate,
        least=least_share(run),
        findings=tuple(_strip_folders(found, place.top) for found in run.findings),
        localisation=run.localisation and _strip_folders(run.localisation, place.top),
        lines=failure_lines(run, place.top),
        counterexample=run.counterexample,
        reproduce=strip_folder(run.reproduce, place.top, "CHECKOUT"),
        note=audited.note or UNSET,
    )


def least_share(run: AuditRun) -> LeastShare | None:
    """Return the instance on which least of the optimum is accepted; None unless ``run`` passes.

    A lossy rule has no optimum. Code that drafts itself and never emits a second token hands its
    tokens out one by one, which does not show how many a call of the target made.
    """
    taken = [one.expected_accepted for one in run.instances]
    if run.verdict != "PASS" or (run.contract == "step" and not any(taken)):
        return None
    shares = [
        LeastShare(
            instance=one.name,
            expected_accepted=one.expected_accepted,
            optimum=one.optimum,
            share=one.expected_accepted / one.optimum,
        )
        for one in run.instances
        if one.expected_accepted is not None and one.optimum
    ]
    return min(shares, key=lambda one: one.share, default=None)


def failure_lines(run: AuditRun, top: Path) -> tuple[str, ...]:
    """Return the lines that the audit names for the failure, by files below ``top``.

    Lines that seed a generator with a constant, and those that decide the deviating token; else
    those of findings, as where the code raised.
    """
    findings = [one for one in run.findings if one.line]
    seeded = [one.line for one in findings if one.broke == "constant-seed"]
    decided = run.localisation.lines if run.localisation else ()
    named = [*seeded, *decided] or [one.line for one in findings]
    return tuple(strip_folder(line, top) for line in dict.fromkeys(filter(None, named)))


def _strip_folders(struct: StrippedStruct, top: Path) -> StrippedStruct:
    """Return a part of a document, of whose texts and lines no folder leads to the engine."""
    texts: dict[str, str | tuple[str, ...]] = {}
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, str):
            texts[name] = strip_folder(value, top)
        elif isinstance(value, tuple):
            texts[name] = tuple(strip_folder(line, top) for line in value)
    return replace_struct(struct, **texts)


def strip_folder(text: str, top: Path, instead: str = "") -> str:
    """Return ``text`` without the folders of this machine that lead to the engine.

    ``instead``: what stands for the checkout where it is named by itself.
    """
    for folder in sorted({str(top), str(top.resolve())}, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
        if instead:
            text = re.sub(rf"{re.escape(folder)}(?=$|[\s'\"])", instead, text)
    return text


Say = Callable[[str], None]


@dataclass(frozen=True)
class EngineCandidate:
    """A known engine, and where it is, if it is anywhere.

    ``missing``: required packages that are not installed.
    """

    engine: Engine
    place: SourceLocation | None
    missing: tuple[str, ...] = ()


def find_candidates(
    names: Sequence[str] | None, folders: Sequence[Path]
) -> Iterator[EngineCandidate]:
    """Yield the engines of these names, or all; raises ``UsageError`` for an unknown name.

    No engine is loaded here: each is loaded in its own process.
    """
    for name in engine_names() if names is None else names:
        engine = unloaded_engine(name)
        place = locate_engine(engine, folders)
        if place is not None and place.folder is None and place.missing:
            yield EngineCandidate(engine, None, place.missing)
        else:
            yield EngineCandidate(engine, place)


def make_table(settings: TableSettings, *, progress: Say | None = None) -> doc.TableRun:
    """Audit every engine that is here, each in a process of its own, and return the table.

    Raises ``UsageError`` if there is none, and for a name that is unknown.
    """
    stamp = start_meta()
    known = list(find_candidates(settings.engines, settings.folders))
    if not any(one.place is not None for one in known):
        raise UsageError(
            "no engine is installed, or lies under the folders that are named: simverify table "
            "--list says what each would need"
        )
    if settings.audits is not None:
        settings.audits.mkdir(parents=True, exist_ok=True)
    ended = _audit_all(known, settings, progress or (lambda _line: None))
    rows: list[doc.EngineRow] = []
    seconds: list[float | None] = []
    for one in known:
        if one.place is None:
            asked = settings.engines is not None
            rows.append(absent_row(one.engine, asked=asked, missing=one.missing))
            seconds.append(None)
        else:
            audited = ended[one.engine.name]
            rows.append(audited_row(one.engine, one.place, audited))
            seconds.append(round(audited.seconds, 1))
    meta = structs.asdict(stamp())
    return doc.TableRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=settings.sizes.seed,
        limit=settings.sizes.limit,
        reproduce=settings.command(),
        verdict=doc.table_verdict(tuple(rows)),
        rows=tuple(rows),
        meta=doc.TableMeta(**meta, jobs=settings.at_a_time, row_seconds=tuple(seconds)),
    )


def _audit_all(
    known: Sequence[EngineCandidate], settings: TableSettings, say: Say
) -> dict[str, AuditOutcome]:
    """Run the audits, so many at a time; return what came of each, by its engine's name."""
    jobs = {one.engine.name: (one.engine, one.place) for one in known if one.place is not None}
    ended: dict[str, AuditOutcome] = {}
    at_a_time = min(settings.at_a_time, len(jobs))
    say(f"{len(jobs)} engines, {at_a_time} at a time")
    with AuditProcesses() as processes, ThreadPoolExecutor(at_a_time) as pool:
        waiting: dict[Future[AuditOutcome], str] = {}
        try:
            for name, (engine, place) in jobs.items():
                waiting[pool.submit(_audit_engine, processes, engine, place, settings)] = name
            for future in as_completed(waiting):
                name = waiting[future]
                ended[name] = future.result()
                run = ended[name].run
                outcome = ended[name].state if run is None else run.verdict
                took = f"{ended[name].seconds:.0f} s"
                say(f"{len(ended)} of {len(jobs)}: {name}: {outcome} in {took}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.close()
            raise
    return ended


def _audit_engine(
    processes: AuditProcesses, engine: Engine, place: SourceLocation, settings: TableSettings
) -> AuditOutcome:
    if engine.name not in ENGINES:
        gamma, vocab, note = processes.said_by(engine.name, settings.sizes.limit)
        engine = dataclasses.replace(engine, gamma=gamma, vocab=vocab, note=note)
    words = [engine.name, *audit_words(settings.sizes, engine)]
    if place.folder is not None:
        words += ["--engine-path", str(place.folder.resolve())]
    audited = processes.audit(words, settings.sizes.limit)
    if settings.audits is not None and audited.run is not None:
        write_whole(settings.audits / f"{engine.name}.json", document_text(audited.run))
    # On a GPU it may be another engine. Looking for one is slow: only where there is a verdict.
    return audited if audited.run is None else dataclasses.replace(audited, note=engine.here.note)


def join_tables(runs: Sequence[doc.TableRun]) -> doc.TableRun:
    """Return one table of several, each made in an environment of its own.

    An engine has the row of the first run in which it is here. ``runs``: one at least; settings and
    ``meta`` are those of the first.
    """
    chosen: dict[str, tuple[doc.EngineRow, float | None]] = {}
    for run in runs:
        for row, seconds in zip(run.rows, run.meta.row_seconds, strict=True):
            if row.engine not in chosen or (chosen[row.engine][0].found is None and row.found):
                chosen[row.engine] = row, seconds
    rows = tuple(row for row, _ in chosen.values())
    meta = replace_struct(
        runs[0].meta, row_seconds=tuple(seconds for _, seconds in chosen.values())
    )
    return replace_struct(runs[0], rows=rows, verdict=doc.table_verdict(rows), meta=meta)


# The requirements of each engine, and which of them are installed.


def engine_requirements(settings: TableSettings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each engine's name, and in words where it is, or how to get it."""
    for one in find_candidates(settings.engines, settings.folders):
        lines = [_engine_location(one), f"get it by: {one.engine.how_to_get}"]
        lines += ["runs on an NVIDIA GPU alone"] if one.engine.gpu else []
        yield one.engine.name, tuple(lines)


def _engine_location(one: EngineCandidate) -> str:
    engine, place = one.engine, one.place
    if place is None and one.missing:
        return f"installed, needs {' and '.join(one.missing)} too"
    if place is None:
        return "not here"
    if place.folder is None:
        versions = f"; adapter for {engine.versions}" if engine.versions else ""
        name, version = engine.provider or ("", "no version")
        other = "" if name in ("", engine.distribution or engine.package) else f"{name} "
        return f"here: {other}{version} installed{versions}"
    lacks = f"; needs {' and '.join(place.missing)} too" if place.missing else ""
    return f"here: {version_name(place.version, place.commit)} in {place.folder}{lacks}"


def version_name(version: str | None, commit: str | None) -> str:
    """Return a version, else a commit cut short, else "checkout"."""
    if version is not None or commit is None:
        return version or "checkout"
    return commit[:10] + (" edited" if commit.endswith(" edited") else "")

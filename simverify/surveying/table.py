"""The table: every engine that is here on trial, side by side."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from simverify import results as doc
from simverify.battery.judgement import stamped
from simverify.engines import ENGINES, Engine, engine_names, unloaded_engine
from simverify.engines.places import Place, find_place
from simverify.errors import UsageError
from simverify.results.reading.document import document_text, write_whole
from simverify.surveying.audited import Audited, Processes
from simverify.surveying.rows import absent_row, audited_row, found_row
from simverify.surveying.settings import TableSettings, audit_words

Say = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """An engine that is known, and where it is, if it is anywhere.

    ``missing``: packages without which what is installed is not whole.
    """

    engine: Engine
    place: Place | None
    missing: tuple[str, ...] = ()


def candidates(names: Sequence[str] | None, folders: Sequence[Path]) -> Iterator[Candidate]:
    """Yield the engines of these names, or all; raises ``UsageError`` for an unknown name.

    None is loaded here: that is for its own process.
    """
    for name in engine_names() if names is None else names:
        engine = unloaded_engine(name)
        place = find_place(engine, folders)
        if place is not None and place.folder is None and place.missing:
            yield Candidate(engine, None, place.missing)
        else:
            yield Candidate(engine, place)


def make_table(settings: TableSettings, *, progress: Say | None = None) -> doc.TableRun:
    """Audit every engine that is here, each in a process of its own, and return the table.

    Raises ``UsageError`` if there is none, and for a name that is unknown.
    """
    stamp = stamped()
    known = list(candidates(settings.engines, settings.folders))
    if not any(one.place is not None for one in known):
        raise UsageError(
            "no engine is installed, or lies under the folders that are named: simverify table "
            "--list says what each would need"
        )
    if settings.audits is not None:
        settings.audits.mkdir(parents=True, exist_ok=True)
    ended = _audit_all(known, settings, progress or (lambda _line: None))
    rows, seconds = [], []
    for one in known:
        rows.append(_row(one, ended.get(one.engine.name), asked=settings.engines is not None))
        audited = ended.get(one.engine.name)
        seconds.append(None if audited is None else round(audited.seconds, 1))
    return _document(tuple(rows), tuple(seconds), settings, stamp())


def _audit_all(known: Sequence[Candidate], settings: TableSettings, say: Say) -> dict[str, Audited]:
    """Run the audits, so many at a time; return what came of each, by its engine's name."""
    jobs = {one.engine.name: (one.engine, one.place) for one in known if one.place is not None}
    ended: dict[str, Audited] = {}
    at_a_time = min(settings.at_a_time, len(jobs))
    say(f"{len(jobs)} engines, {at_a_time} at a time")
    with Processes() as processes, ThreadPoolExecutor(at_a_time) as pool:
        waiting: dict[Future[Audited], str] = {}
        try:
            for name, (engine, place) in jobs.items():
                waiting[pool.submit(_audit, processes, engine, place, settings)] = name
            for future in as_completed(waiting):
                name = waiting[future]
                ended[name] = future.result()
                say(f"{len(ended)} of {len(jobs)}: {name}: {_outcome(ended[name])}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.close()
            raise
    return ended


def _audit(processes: Processes, engine: Engine, place: Place, settings: TableSettings) -> Audited:
    if engine.name not in ENGINES:
        gamma, vocab, note = processes.said_by(engine.name, settings.sizes.limit)
        engine = dataclasses.replace(engine, gamma=gamma, vocab=vocab, note=note)
    words = [engine.name, *audit_words(settings.sizes, engine)]
    if place.folder is not None:
        words += ["--engine-path", str(place.folder.resolve())]
    audited = processes.audit(words, settings.sizes.limit)
    if settings.audits is not None and audited.run is not None:
        write_whole(settings.audits / f"{engine.name}.json", document_text(audited.run))
    # On a GPU it may be another engine, and to ask for one is slow: only where there is a verdict.
    return audited if audited.run is None else dataclasses.replace(audited, note=engine.here.note)


def _outcome(audited: Audited) -> str:
    said = audited.state if audited.run is None else audited.run.verdict
    return f"{said} in {audited.seconds:.0f} s"


def _row(one: Candidate, audited: Audited | None, *, asked: bool) -> doc.EngineRow:
    if one.place is None:
        return absent_row(one.engine, asked=asked, missing=one.missing)
    if audited is None:
        return found_row(one.engine, one.place)
    return audited_row(one.engine, one.place, audited)


def _document(
    rows: tuple[doc.EngineRow, ...],
    seconds: tuple[float | None, ...],
    settings: TableSettings,
    meta: doc.Meta,
) -> doc.TableRun:
    own = {name: getattr(meta, name) for name in doc.Meta.__struct_fields__}
    return doc.TableRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=settings.sizes.seed,
        limit=settings.sizes.limit,
        reproduce=settings.command(),
        verdict=doc.table_verdict(rows),
        rows=rows,
        meta=doc.TableMeta(**own, jobs=settings.at_a_time, row_seconds=seconds),
    )


def joined(runs: Sequence[doc.TableRun]) -> doc.TableRun:
    """Return one table of several, each made in an environment of its own.

    An engine has the row of the first run in which it is here. ``runs``: one at least; settings and
    ``meta`` are those of the first.
    """
    kept: dict[str, tuple[doc.EngineRow, float | None]] = {}
    for run in runs:
        for row, seconds in zip(run.rows, run.meta.row_seconds, strict=True):
            if row.engine not in kept or (kept[row.engine][0].found is None and row.found):
                kept[row.engine] = row, seconds
    rows = tuple(row for row, _ in kept.values())
    meta = replace(runs[0].meta, row_seconds=tuple(seconds for _, seconds in kept.values()))
    return replace(runs[0], rows=rows, verdict=doc.table_verdict(rows), meta=meta)

"""The code that a run was about: which file, with which hash, of which package."""

import hashlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from simverify.checks import clean
from simverify.folders import distribution_of, find_source
from simverify.results import AuditRun, CompareRun, Document, SweepRun
from simverify.verifiers import VERIFIERS


class Code(msgspec.Struct, frozen=True):
    """Code under audit, as it was when the run was recorded.

    ``sha256``: of its file; null where none could be found. ``package``: what it belongs to and
    its version, "" where that is not known. ``commit``: of the checkout that an engine was loaded
    from.
    """

    spec: str
    sha256: str | None = None
    package: str = ""
    commit: str | None = None


def codes_of(run: Document) -> tuple[Code, ...]:
    """Return what ``run`` was about, but for rules of simverify itself; no code is loaded."""
    return tuple(_found(run))


def _found(run: Document) -> Iterator[Code]:
    if isinstance(run, AuditRun):
        parts = [run.spec] if run.pair is None else [run.pair.drafter, run.pair.verifier]
        if run.bridge is not None:
            yield from _bridged(run.bridge.library, run.bridge.command)
        else:
            for spec in parts:
                yield from _code(spec, run.engine_path)
    elif isinstance(run, CompareRun):
        for spec in sorted({row.verifier for row in run.results}):
            yield from _code(spec, None)
    elif isinstance(run, SweepRun):
        for spec in sorted({audit.spec for audit in run.audits}):
            yield from _code(spec, None)


def _code(spec: str, checkout: str | None) -> Iterator[Code]:
    """Yield what a SPEC names: an engine's function, a function in a module, or one in a file."""
    shown = clean(spec, 200)
    if ":" not in spec:
        yield from _engine(spec, checkout)
        return
    path, module = find_source(spec), spec.rpartition(":")[0]
    known = None if module.endswith(".py") else distribution_of(module.partition(".")[0])
    package = "" if known is None else " ".join(known)
    yield Code(shown, None if path is None else _sha256(path), package)


def _engine(name: str, checkout: str | None) -> Iterator[Code]:
    if name in VERIFIERS:
        return
    # Half a second, which an audit of an engine has spent already.
    from simverify.engines import engine_names, unloaded_engine
    from simverify.engines.places import find_place

    if name not in engine_names():
        return
    engine = unloaded_engine(name)
    place = find_place(engine, [] if checkout is None else [Path(checkout)])
    known = engine.provider if place is not None and place.folder is None else None
    called = engine.distribution or engine.package if known is None else known[0]
    if place is None:
        yield Code(name, None, called)
    else:
        package = f"{called} {place.version}" if place.version else called
        yield Code(name, _sha256(place.file), package, place.commit)


def _bridged(library: str | None, command: str | None) -> Iterator[Code]:
    """Yield the library of a bridge, or the files that its command line names."""
    if library is not None:
        yield Code(clean(library, 200), _sha256(Path(library.rpartition(":")[0])))
    try:
        words = shlex.split(command or "")
    except ValueError:
        words = []
    for word in words:
        if found := _sha256(Path(word)):
            yield Code(clean(word, 200), found)


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except (OSError, ValueError):
        return None

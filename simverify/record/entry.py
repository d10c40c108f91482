"""One recorded run, and what is known about it without its document."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from simverify.checks import clean
from simverify.folders import find_source
from simverify.results import (
    AgainstRun,
    AuditRun,
    CompareRun,
    Document,
    MatrixRun,
    Meta,
    OutputRun,
    SweepRun,
    TriageRun,
    WatchRun,
)


@dataclass(frozen=True)
class Entry:
    """A recorded run.

    ``title``: what it was about. ``words``: its command line; empty for a file that was added.
    ``verdict``: null of a plan. ``started``: in UTC, as the document says; of a sweep when it was
    recorded. ``document_sha256``: of the document as its file holds it. ``code_sha256``: of the
    file under audit; null where it is not one that could be found.
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
    code_sha256: str | None


def entry_of(run: Document, text: str, words: Sequence[str]) -> Entry:
    """Return the entry of a run whose document is ``text``; its id is still 0."""
    meta = _meta_here() if isinstance(run, SweepRun) else run.meta
    return Entry(
        id=0,
        started=meta.started,
        command=str(type(run).__struct_config__.tag),
        title=clean(_title(run), 200),
        verdict=getattr(run, "verdict", None),
        words=clean(shlex.join(words), 2000) if words else "",
        seed=getattr(run, "seed", None),
        version=meta.version,
        machine=meta.machine,
        python=meta.python,
        document_sha256=hashlib.sha256(text.encode()).hexdigest(),
        # Of a file that was added, nobody knows what the code was at its time.
        code_sha256=_code(_spec(run)) if words else None,
    )


def _meta_here() -> Meta:
    """Return the time and the machine of now, for a sweep: it may have come from many of both."""
    # Half a second, which no other run has to wait for.
    from simverify.battery.judgement import stamped

    return stamped()()


def _title(run: Document) -> str:
    if isinstance(run, AuditRun):
        return run.spec
    if isinstance(run, OutputRun | WatchRun | MatrixRun):
        return run.source
    if isinstance(run, TriageRun):
        return f"{run.a} against {run.b}"
    if isinstance(run, AgainstRun):
        return f"{run.first} against {run.second}"
    if isinstance(run, CompareRun):
        rules = dict.fromkeys(row.verifier for row in run.results)
        models = dict.fromkeys(row.model for row in run.results)
        return f"{', '.join(rules)} on {', '.join(models)}, gamma {run.gamma}"
    if isinstance(run, SweepRun):
        sizes = (("cell", len(run.cells)), ("audit", len(run.audits)))
        return ", ".join(f"{n} {word}{'s' * (n > 1)}" for word, n in sizes if n)
    return ""


def _spec(run: Document) -> str:
    """Return the code that the run was about, or "" if it was none, or more than one."""
    if isinstance(run, AuditRun):
        return run.spec
    if isinstance(run, CompareRun):
        named = {row.verifier for row in run.results if ":" in row.verifier}
        return named.pop() if len(named) == 1 else ""
    return ""


def _code(spec: str) -> str | None:
    """Return the hash of the file that ``spec`` names, as it is now; no code is loaded."""
    path = find_source(spec)
    if path is None:
        return None
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None

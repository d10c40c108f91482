"""One recorded run, and what is known about it without its document."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from simverify.checks import clean
from simverify.folders import own_sources_sha256
from simverify.record.code import Code, codes_of
from simverify.record.machine import machine
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
    code: tuple[Code, ...] = ()
    sources_sha256: str | None = None
    host: str | None = None
    system: str | None = None
    processor: str | None = None
    cores: int | None = None
    memory: int | None = None
    gpu: str | None = None
    packages: dict[str, str] = field(default_factory=dict)


def entry_of(run: Document, text: str, words: Sequence[str]) -> Entry:
    """Return the entry of a run whose document is ``text``; its id is still 0."""
    meta = _meta_here() if isinstance(run, SweepRun) else run.meta
    # Of a file that was added, nobody knows what the code was at its time, nor the machine.
    here = _of_here(run) if words else {}
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
        **here,
    )


def _of_here(run: Document) -> dict[str, Any]:
    """Return what is known of code and machine while a run is recorded where it was made."""
    code = codes_of(run)
    return {
        "code": code,
        "code_sha256": code[0].sha256 if len(code) == 1 else None,
        "sources_sha256": own_sources_sha256(),
        **asdict(machine()),
    }


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

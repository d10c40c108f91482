"""Code under audit on a trace: called on recorded rows and drafts, judged by what it emits."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from simverify import results as doc
from simverify.auditing.real.calls import BlockCaller, Kept
from simverify.auditing.real.rows import Ground, audit_on, repeated
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.models.real.trace import open_trace
from simverify.simulators.decoding.lanes import Block
from simverify.simulators.decoding.replayed import Replayed, blocks_of


def audit_recorded(
    subject: Subject,
    folder: Path,
    settings: AuditSettings,
    *,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Put a ``verify`` rule on trial on the rows and drafts of the trace in ``folder``.

    Every block is one call, with fresh randomness; the tokens are judged as a real model's
    are. Of ``settings``, the error rates, the seed and what is strict count.

    Raises
    ------
    UsageError
        If the trace holds no rows, is damaged or too short, or the code is under another
        contract or takes whole batches.
    """
    trace = open_trace(folder)
    made = trace.manifest
    _subject_iv(subject, settings)
    if made.kind != "rows":
        raise UsageError(f"{folder} holds statistics of {', '.join(made.rules)}, and code under "
                         f"audit needs rows: record them without --statistics")  # fmt: skip
    ground = Ground(
        name=f"trace of {made.name}",
        gamma=made.gamma,
        vocab_size=made.vocab_size,
        plan=f"{made.blocks:,} recorded blocks of {made.name}",
        why=f"replayed on recorded rows, the trace {trace.folder}",
        more="record more",
        command=recorded_command(subject.name, trace.folder, settings),
        notes=(f"the trace has sha256 {made.sha256}",),
    )
    lanes = made.decoding.lanes
    kept = Kept(gamma=made.gamma, lanes=lanes, seed=settings.seed, drafted=True)
    caller = BlockCaller(subject.generator_rule(), made.vocab_size)

    def judge(block: Block, rng: np.random.Generator) -> list[int]:
        return caller.judge(0, block.p, block.q[:-1], block.drafts, rng)

    replayed = Replayed(
        judge, kept, kept.tokens.add, lanes=lanes, tokens=made.decoding.tokens, seed=settings.seed
    )

    def call() -> None:
        for block in blocks_of(trace):
            replayed(block)
        replayed.finish()

    return audit_on(
        ground, subject, "verify", settings, kept, call, progress or (lambda _: None)
    )  # fmt: skip


def recorded_command(spec: str, folder: Path, settings: AuditSettings) -> str:
    """Return the command that repeats the audit."""
    return repeated(["simverify", "audit", spec, "--trace", str(folder)], settings)


def _subject_iv(subject: Subject, settings: AuditSettings) -> None:
    if subject.contract not in (None, "verify"):
        raise UsageError(
            f"{subject.name} has the {subject.contract} contract, and a trace holds blocks that "
            "are drafted already: audit it without --trace"
        )
    if settings.batch or subject.batch or subject.company:
        raise UsageError(f"{subject.name} takes whole batches: a trace is replayed block by block")

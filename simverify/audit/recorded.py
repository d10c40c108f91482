"""Code under audit on a trace: called on recorded rows and drafts, judged by what it emits."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify import results as doc
from simverify.audit.board import doing
from simverify.audit.callables_emissions import Misuse
from simverify.audit.callables_quiet import global_generators
from simverify.audit.containment import contained, from_user
from simverify.audit.documents import (
    certificate_document,
    faults_document,
    finite,
    stamped,
    suspect_document,
    test_document,
)
from simverify.audit.enumerate import check_ids, read_tokens
from simverify.audit.judgement import Judgement
from simverify.audit.output import certify_output, judge_output
from simverify.audit.precision import TOLERANCE
from simverify.audit.probes import run_probes
from simverify.audit.settings import AuditSettings
from simverify.audit.spec import Subject
from simverify.audit.symbolic.engine import BadTokens, one_line, user_line
from simverify.compare_trace import blocks_of
from simverify.errors import UsageError
from simverify.models.trace import Manifest, open_trace
from simverify.simulators.decoding.expected import RULES, Interval, LaneMeans, curves
from simverify.simulators.decoding.loop import Block
from simverify.simulators.decoding.replayed import Replayed
from simverify.simulators.decoding.token_sums import TokenSums

_CONFIDENCE = 0.999
_DELTA = 1e-3
_POWER = 0.9


def audit_recorded(
    subject: Subject,
    folder: Path,
    settings: AuditSettings,
    *,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Put a ``verify`` rule on trial on the rows and drafts of the trace in ``folder``.

    Every block is one call, with fresh randomness; the tokens are judged as a real model's
    are. Of ``settings``, ``alpha``, ``detect``, ``seed`` and ``strict_probes`` count.

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
    stamp, say = stamped(), progress or (lambda _: None)
    with contained():
        say("edge probes")
        try:
            probes = run_probes(subject.rule, "verify")
        except ValueError as error:
            raise UsageError(f"{subject.name}: {error}") from None
        say(f"{made.blocks:,} recorded blocks of {made.name}")
        kept = _Kept(made, settings.seed)
        replayed = Replayed(
            _Caller(subject.generator_rule(), made.vocab_size), kept, kept.tokens.add,
            lanes=made.decoding.lanes, tokens=made.decoding.tokens, seed=settings.seed,
        )  # fmt: skip
        broken, judged = None, None
        try:
            with global_generators(settings.seed):
                for block in blocks_of(trace):
                    replayed(block)
            replayed.finish()
            judged = judge_output(kept.tokens.features, settings.alpha)
        except Misuse as misuse:
            broken = str(misuse)
    return _document(
        subject, trace.folder, made, settings, probes, kept, judged, broken, stamp(),
    )  # fmt: skip


class _Caller:
    """Calls the code on a block, on copies of its rows; a broken contract is a ``Misuse``."""

    def __init__(self, rule: Callable[..., Any], vocab_size: int) -> None:
        self._rule, self._vocab_size = rule, vocab_size

    def __call__(self, block: Block, rng: np.random.Generator) -> list[int]:
        doing("a recorded block")
        drafts = np.array(block.drafts, np.int64)
        try:
            result = self._rule(block.p.copy(), block.q[:-1].copy(), drafts, rng)
        except BaseException as error:  # the code may raise anything, SystemExit too
            if from_user(error):
                raise
            message = f"raises: {type(error).__name__}: {one_line(error)}{user_line(error)}"
            raise Misuse(message) from None
        try:
            tokens = read_tokens(result)
            check_ids(tokens, self._vocab_size)
        except BadTokens as error:
            raise Misuse(f"{error.kind}: {error}") from None
        if tokens[:-1] != block.drafts[: len(tokens) - 1]:
            raise Misuse(
                f"not-a-prefix: returned {tokens} for the draft {block.drafts}: all but the last "
                f"token must be an accepted prefix of the draft"
            )
        return list(tokens)


class _Kept:
    """What is kept of the calls: judged tokens, and accepted tokens beside block's."""

    def __init__(self, made: Manifest, seed: int) -> None:
        lanes = made.decoding.lanes
        self.tokens = TokenSums(gamma=made.gamma, lanes=lanes, seed=seed)
        self._accepted = LaneMeans(lanes, 2)

    def __call__(self, block: Block) -> None:
        optimum = float(curves(block)[RULES.index("block")].sum())
        self._accepted.add(block.lane, [block.tau, optimum])
        self.tokens.add(block)

    @property
    def calls(self) -> int:
        return self._accepted.blocks

    def accepted(self, weights: tuple[float, float]) -> Interval:
        """Weighted sum of E[tau] and of the optimum on the same blocks."""
        return self._accepted.interval(weights, _CONFIDENCE)


def _document(
    subject: Subject,
    folder: Path,
    made: Manifest,
    settings: AuditSettings,
    probes: tuple[doc.Probe, ...],
    kept: _Kept,
    judged: Judgement | None,
    broken: str | None,
    meta: doc.Meta,
) -> doc.AuditRun:
    fatal = ("violation", "warning") if settings.strict_probes else ("violation",)
    findings = [f"probe {p.name}: {p.message}" for p in probes if p.outcome in fatal]
    tier_findings = (broken,) if broken is not None else judged.findings if judged else ()
    findings += tier_findings
    short = judged is not None and judged.detectable > settings.detect
    verdict: doc.Verdict = "FAIL" if findings else "INCONCLUSIVE" if short else "PASS"
    bound = None
    if verdict == "PASS":
        bound = certificate_document(certify_output(kept.tokens.features, _DELTA))
    instance = doc.SampledModel(
        name=f"trace of {made.name}", vocab_size=made.vocab_size, gamma=made.gamma,
        samples=kept.calls, detect=settings.detect,
        detectable=None if judged is None else finite(judged.detectable),
        bound=None if bound is None else bound.bound,
    )  # fmt: skip
    tier = doc.SampledTier(
        samples=kept.calls,
        looks=0 if judged is None else 1,
        alpha=settings.alpha,
        detect=settings.detect,
        power=_POWER,
        tests=() if judged is None else tuple(test_document(test) for test in judged.tests),
        detectable=instance.detectable,
        certificate=bound,
        optimality=None if judged is None else _optimality(kept),
        findings=tuple(tier_findings),
        instances=(instance,),
        faults=None if judged is None else faults_document(judged.named),
        localisation=None if judged is None else suspect_document(judged.located),
    )
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=subject.name,
        contract="verify",
        seed=settings.seed,
        gamma=made.gamma,
        vocab_size=made.vocab_size,
        tolerance=TOLERANCE["float64"],
        dtype=None,
        verdict=verdict,
        tier="sampled",
        paths=0,
        instances=(),
        not_enumerable=f"replayed on recorded rows, the trace {folder}",
        inconclusive=_short(judged, settings) if verdict == "INCONCLUSIVE" and judged else None,
        sampled=tier,
        counterexample=None,
        localisation=None,
        diagnosis=(),
        refuted=(),
        probes=probes,
        findings=tuple(findings),
        notes=tuple(_notes(made, judged, kept, failed=bool(findings))),
        reproduce=_command(subject.name, folder, settings),
        meta=meta,
        engine_path=settings.engine_path,
    )


def _notes(made: Manifest, judged: Judgement | None, kept: _Kept, *, failed: bool) -> list[str]:
    notes = [f"the trace has sha256 {made.sha256}"]
    if judged is not None:
        n = kept.tokens.features.n
        notes.append(f"{n:,} tokens are judged; what is promised is of: {judged.deviation}")
        if not failed:
            notes.append(_optimality(kept))
    return notes


def _optimality(kept: _Kept) -> str:
    tau, best = kept.accepted((1.0, 0.0)), kept.accepted((0.0, 1.0))
    less = kept.accepted((1.0, -1.0))
    return (
        f"E[tau] = {tau.mean:.4f} ({tau.low:.4f} to {tau.high:.4f}), block's {best.mean:.4f} on "
        f"the same blocks: {less.mean:+.4f} ({less.low:+.4f} to {less.high:+.4f})"
    )


def _short(judged: Judgement, settings: AuditSettings) -> str:
    return (
        f"the recorded tokens promise a TV of {judged.detectable:.3g}, not {settings.detect:g}: "
        f"record more"
    )


def _command(spec: str, folder: Path, settings: AuditSettings) -> str:
    words = ["simverify", "audit", spec, "--trace", str(folder), "--seed", str(settings.seed)]
    for name, flag in (
        ("alpha", "--alpha"),
        ("detect", "--detect"),
        ("engine_path", "--engine-path"),
    ):
        value = getattr(settings, name)
        if value is not None:
            words += [flag, str(value)]
    return shlex.join(words + ["--strict-probes"] * settings.strict_probes)


def _subject_iv(subject: Subject, settings: AuditSettings) -> None:
    if subject.contract == "step":
        raise UsageError(
            f"{subject.name} has the step contract: a trace holds blocks that are drafted already"
        )
    if settings.batch or subject.batch:
        raise UsageError(f"{subject.name} takes whole batches: a trace is replayed block by block")

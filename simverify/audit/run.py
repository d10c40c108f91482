"""An audit: probes, the exact tier, the sampled tier where it must, and one verdict."""

import inspect
from collections.abc import Callable

import msgspec

from simverify import results as doc
from simverify.audit.callables import SampledAudit, sample_callable
from simverify.audit.callables_tables import default_instances
from simverify.audit.containment import contained
from simverify.audit.diagnosis import refuted, resemble
from simverify.audit.documents import stamped
from simverify.audit.enumerate import takes_step_arguments
from simverify.audit.exact_documents import (
    breach,
    counterexample,
    instance_document,
    localisation,
)
from simverify.audit.exact_tier import ExactTier, examine, is_core
from simverify.audit.instances import instances_for
from simverify.audit.optimality import optimality_notes
from simverify.audit.precision import TOLERANCE
from simverify.audit.probes import run_probes
from simverify.audit.settings import AuditSettings
from simverify.audit.shared import Shared
from simverify.audit.spec import Contract, Subject
from simverify.errors import UsageError


def audit(
    subject: Subject,
    contract: Contract | None = None,
    settings: AuditSettings | None = None,
    *,
    reproduce: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Put ``subject`` on trial.

    ``contract`` is needed where the subject does not say its own; "verify" if not given.
    ``reproduce``: the command that shows a counterexample or a failing trial again, where there
    is one; by default the audit itself. ``progress`` receives a line when something begins that
    may take a while.

    Raises ``UsageError`` if the code cannot be called under the contract at all.
    """
    settings = (settings or AuditSettings()).for_subject(subject)
    say = progress or (lambda _line: None)
    chosen = _contract_iv(subject, contract, settings.batch)
    stamp, shared = stamped(), Shared()
    with contained() as noise:
        try:
            run = _audit(subject, chosen, settings, reproduce, say)
            changed = shared.restore()
        except Exception:
            # What the code replaced is as likely to stop us as the code.
            changed = shared.restore()
            if not changed:
                raise
            run = broken_document(changed, subject.name, chosen, settings, stamp())
        else:
            if changed:
                findings = (*run.findings, changed)
                run = msgspec.structs.replace(
                    run, verdict="FAIL", findings=findings, inconclusive=None, refuted=()
                )
    if noise.size:
        note = (
            f"prints: {noise.size:,} bytes, of which none are shown; the first are {noise.line!r}"
        )
        run = msgspec.structs.replace(run, notes=(*run.notes, note))
    return run


def broken_document(
    finding: str, spec: str, contract: Contract, settings: AuditSettings, meta: doc.Meta
) -> doc.AuditRun:
    """Return the FAIL of code that broke the audit of it."""
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=spec,
        contract=contract,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab_size,
        tolerance=settings.tolerance or TOLERANCE["float64"],
        dtype=None,
        verdict="FAIL",
        tier="exact",
        paths=0,
        instances=(),
        not_enumerable=None,
        inconclusive=None,
        sampled=None,
        counterexample=None,
        localisation=None,
        diagnosis=(),
        refuted=(),
        probes=(),
        findings=(finding,),
        notes=(),
        reproduce=settings.command(spec, contract),
        meta=meta,
        engine_path=settings.engine_path,
    )


def _audit(
    subject: Subject,
    chosen: Contract,
    settings: AuditSettings,
    reproduce: str | None,
    say: Callable[[str], None],
) -> doc.AuditRun:
    whole, subject = subject, subject.one_row() if settings.batch else subject
    if settings.eos is not None and chosen == "verify" and subject.coin_bits is None:
        subject = subject.ended_by(settings.eos)
    stamp = stamped()
    say("edge probes")
    probes = _probes(whole, subject, chosen, settings)
    say("exact tier")
    tolerance = settings.tolerance
    if tolerance is None:
        tolerance = subject.tolerance  # None: by the precision that is met
    models = instances_for(chosen, settings.gamma, settings.vocab_size, settings.seed, settings.eos)
    hung = any(probe.outcome == "violation" and "not return" in probe.message for probe in probes)
    tier = ExactTier()
    if not hung:  # more of it would only hang again
        tier = examine(
            subject,
            chosen,
            models,
            tolerance=tolerance,
            max_paths=settings.paths_for(subject),
            seconds=settings.seconds,
            seed=settings.seed,
        )
    sampled = None
    findings = _findings(tier, probes, settings.strict_probes)
    if not findings and (settings.batch or not _whole(tier)):
        say(f"sampled tier: {'whole batches' if _whole(tier) else _reason(tier)}")
        sampled = _sample(whole, chosen, settings, say)
        findings += sampled.tier.findings
    verdict = _verdict(findings, tier, sampled)
    failure = tier.failure
    held = tier.held
    tolerance = held.tolerance if held else tolerance or TOLERANCE["float64"]
    command = settings.command(subject.name, chosen)
    trial = None if sampled is None else sampled.trial
    shown = failure is not None and failure.deviates
    broken = breach(failure, chosen) if failure else None
    say("faults it resembles" if failure else "faults it refutes")
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=subject.name,
        contract=chosen,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab_size,
        tolerance=tolerance,
        dtype=None if held is None else held.dtype,
        verdict=verdict,
        tier="exact" if sampled is None else "sampled",
        paths=tier.paths,
        instances=tuple(instance_document(judged) for judged in tier.judged),
        not_enumerable=None if _whole(tier) or failure or hung else _reason(tier),
        inconclusive=_open(tier, sampled) if verdict == "INCONCLUSIVE" else None,
        sampled=None if sampled is None else sampled.tier,
        counterexample=counterexample(failure, chosen) if failure and shown else None,
        localisation=localisation(failure) if failure and shown else None,
        diagnosis=resemble(subject, failure, chosen) if failure and shown else (),
        refuted=refuted(chosen, [judged.model for judged in tier.judged], tolerance)
        if verdict == "PASS" and sampled is None
        else (),
        probes=probes,
        findings=tuple(findings),
        reproduce=reproduce if reproduce and (shown or broken or trial) else command,
        notes=tuple(_notes(tier, sampled, tolerance)),
        meta=stamp(),
        batch=settings.batch,
        trial=trial,
        breach=broken,
        engine_path=settings.engine_path,
    )


def _contract_iv(subject: Subject, contract: Contract | None, batch: int | None) -> Contract:
    if batch and "step" in (subject.contract, contract):
        raise UsageError("--batch is for the verify contract: code that drafts itself has none")
    if subject.contract is None:
        return contract or "verify"
    if contract not in (None, subject.contract):
        raise UsageError(
            f"{subject.name} has the {subject.contract} contract: got --contract {contract}"
        )
    return subject.contract


def _notes(tier: ExactTier, sampled: SampledAudit | None, tolerance: float) -> list[str]:
    """What does not decide: how far from optimal, and what was left out."""
    notes = []
    if tier.failure is None:
        notes += optimality_notes(tier.judged, tolerance)
    if sampled is not None and sampled.tier.optimality and not sampled.tier.findings:
        notes.append(f"sampled: {sampled.tier.optimality}")
    if tier.skipped:
        count = f"{len(tier.skipped)} instances were" if tier.skipped[1:] else "1 instance was"
        notes.append(
            f"{count} left out for want of paths, of which the first is {tier.skipped[0].name}: "
            "raise --max-paths"
        )
    return notes


def _probes(
    whole: Subject, subject: Subject, contract: Contract, settings: AuditSettings
) -> tuple[doc.Probe, ...]:
    if subject.coin_bits is not None:
        message = "the code takes its coins as arguments: no random source to force"
        return (doc.Probe(name="edges", outcome="not run", message=message),)
    if contract == "verify":
        _signature_iv(subject)
    try:
        return run_probes(
            subject.rule,
            contract,
            eos=settings.eos,
            batched=whole.rule if settings.batch else None,
            rows=settings.batch,
        )
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None


def _signature_iv(subject: Subject) -> None:
    """Refuse code that cannot take the four arguments of ``verify``."""
    try:
        signature = inspect.signature(subject.rule)
    except (TypeError, ValueError):
        return
    if not _takes(signature, 4):
        hint = "; it looks like a step rule: --contract step" if _takes(signature, 5) else ""
        raise UsageError(
            f"{subject.name}{signature} cannot be called as verify(target_probs, draft_probs, "
            f"draft_tokens, rng){hint}"
        )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _sample(
    subject: Subject, contract: Contract, settings: AuditSettings, say: Callable[[str], None]
) -> SampledAudit:
    return sample_callable(
        subject.generator_rule(),
        contract,
        instances=default_instances(
            settings.gamma,
            settings.vocab_size,
            eos=settings.eos,
            resets=contract == "step" and not takes_step_arguments(subject.rule),
        ),
        seed=settings.seed,
        alpha=settings.alpha,
        detect=settings.detect,
        max_samples=settings.max_samples,
        seconds=settings.seconds,
        batch=settings.batch,
        say=say,
    )


def _whole(tier: ExactTier) -> bool:
    """Whether the exact tier ran on all it should have, to the end."""
    undecided = any(judged.undecided for judged in tier.judged)
    core_skipped = any(is_core(m) for m in tier.skipped)
    return (
        bool(tier.judged)
        and tier.not_enumerable is None
        and tier.aborted is None
        and not undecided
        and not core_skipped
    )


def _reason(tier: ExactTier) -> str:
    """Why the exact tier is not enough."""
    if tier.not_enumerable is not None:
        return str(tier.not_enumerable)
    if tier.aborted is not None:
        return tier.aborted
    if any(judged.undecided for judged in tier.judged):
        pruned = max(judged.comparison.pruned for judged in tier.judged)
        return f"branches of mass {pruned:.1e} could not be told from rounding"
    if tier.skipped:
        return f"more paths than the budget on {tier.skipped[0].name}"
    return "no instance could be run"


def _open(tier: ExactTier, sampled: SampledAudit | None) -> str:
    """Why there is no verdict."""
    if tier.aborted is not None or sampled is None:
        return _reason(tier)
    return sampled.reason or "the promised power was not reached"


def _findings(tier: ExactTier, probes: tuple[doc.Probe, ...], strict: bool) -> list[str]:
    fatal = ("violation", "warning") if strict else ("violation",)
    lines = [f"probe {p.name}: {p.message}" for p in probes if p.outcome in fatal]
    recorded = tier.failure.comparison.findings if tier.failure else ()
    if tier.not_enumerable is not None:
        recorded = (*recorded, *tier.not_enumerable.findings)
    lines += [f"{f.kind}: {f.message}" for f in recorded if f.severity == "violation"]
    if tier.failure is not None and tier.failure.deviates:
        comparison = tier.failure.comparison
        held = tier.failure.held
        why = f", although computed in float64: no rounding of {held.dtype}" if held.lifted else ""
        lines.append(
            f"the exact law on {tier.failure.model.name} differs from the target's by TV "
            f"{comparison.tv:.3g}{why}"
        )
    return lines


def _verdict(findings: list[str], tier: ExactTier, sampled: SampledAudit | None) -> doc.Verdict:
    if findings or tier.failure is not None:
        return "FAIL"
    # A wall-clock limit only aborts: sampling cannot stand in for paths that were not run.
    if sampled is not None:
        return sampled.verdict if tier.aborted is None else "INCONCLUSIVE"
    return "PASS"

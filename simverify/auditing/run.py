"""An audit: probes, the exact tier, the sampled tier where it must, and one verdict."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from simverify import results as doc
from simverify.auditing.calling import Calling, calling_of, instances_of
from simverify.auditing.coverage.places import coverage_of, where
from simverify.auditing.coverage.reach import Reach, reach_of
from simverify.auditing.coverage.watch import Watch, current, watching
from simverify.auditing.exact.battery import ExactTier
from simverify.auditing.exact.company.document import audit_company
from simverify.auditing.exact.company.places import SIZE
from simverify.auditing.exact.company.taken import in_company, takes_batch_iv
from simverify.auditing.exact.documents import (
    breach,
    counterexample,
    instance_document,
    rows_document,
)
from simverify.auditing.exact.generations.enumerate import takes_step_arguments
from simverify.auditing.exact.instances.hinted import Hints
from simverify.auditing.exact.judging.comparison import TOLERANCE
from simverify.auditing.exact.judging.diagnosis import refuted, resemble
from simverify.auditing.exact.judging.examiner import generates
from simverify.auditing.exact.tier import examine
from simverify.auditing.probes.run import probes_of
from simverify.auditing.replay.blame.lines import located
from simverify.auditing.replay.blame.raised import with_sources
from simverify.auditing.sampled.tables import default_instances
from simverify.auditing.sampled.tier import KEEPS_DRAWS, SampledAudit, sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, contract_iv
from simverify.auditing.verdict import (
    findings_of,
    is_whole,
    needs_sampling,
    notes_of,
    reason,
    stopped,
    verdict_of,
    why_open,
)
from simverify.battery.judgement import stamped
from simverify.symbolic.guards.containment import Shared, contained
from simverify.symbolic.state.kept import NOTHING_NEW, Kept


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
    subject, settings = in_company(subject, settings)
    company = SIZE if settings.batch_mix else None
    chosen = contract_iv(subject, contract, settings.batch or company)
    takes_batch_iv(subject, settings)
    stamp, shared = stamped(), Shared()
    reach = reach_of(subject.rule) if settings.bridge is None else Reach()
    hints = Hints.among(reach.numbers, chosen, settings.gamma, settings.vocab)
    watch = Watch(reach.codes, always=settings.strict_coverage, named=reach.named)
    kept = Kept(subject.rule, None) if reach.codes else None
    with contained() as noise, watching(watch):
        try:
            run = _audit(subject, chosen, settings, hints, reproduce, say, kept)
            changed = shared.restore()
        except Exception:
            # What the code replaced is as likely to stop us as the code.
            changed = shared.restore()
            if not changed:
                raise
            run = broken_document(changed, subject.name, chosen, settings, stamp())
        else:
            if changed:
                run = _failed(run, doc.Finding(kind="process", text=changed))
    if watch.watched:
        run = covered(run, watch, settings, hints.numbers)
        keeps = kept is not None and kept.image() != NOTHING_NEW
        built = chosen == "step" and not takes_step_arguments(subject.rule)
        run = tried(run, watch, keeps=keeps or built)
    if subject.note:
        run = msgspec.structs.replace(run, notes=(subject.note, *run.notes))
    if noise.size:
        note = (
            f"prints: {noise.size:,} bytes, of which none are shown; the first are {noise.line!r}"
        )
        run = msgspec.structs.replace(run, notes=(*run.notes, note))
    return run


def covered(
    run: doc.AuditRun, watch: Watch, settings: AuditSettings, numbers: tuple[float, ...] = ()
) -> doc.AuditRun:
    """Return ``run`` with what its calls reached; a FAIL where all lines were asked for.

    ``numbers``: those of the code that led to instances.
    """
    found = coverage_of(list(watch.instructions.values()))
    found = msgspec.structs.replace(found, numbers=numbers)
    run = msgspec.structs.replace(run, coverage=found)
    if not (settings.strict_coverage and found.not_reached):
        return run
    lines = ", ".join(where(missed) for missed in found.not_reached)
    return _failed(run, doc.Finding(kind="coverage", text=f"not reached: {lines}"))


def tried(run: doc.AuditRun, watch: Watch, *, keeps: bool) -> doc.AuditRun:
    """Return ``run`` with how far its calls went, where that may matter.

    ``keeps``: whether the code keeps something from call to call, as far as can be read.
    """
    found, step = run.coverage, run.contract == "step"
    if found is None or run.contract not in ("verify", "step"):
        return run
    found = msgspec.structs.replace(
        found,
        prefix=watch.prefix if step else msgspec.UNSET,
        calls=watch.row if keeps else msgspec.UNSET,
    )
    return msgspec.structs.replace(run, coverage=found)


def _failed(run: doc.AuditRun, finding: doc.Finding) -> doc.AuditRun:
    """Return ``run`` as the FAIL that one more finding makes of it."""
    return msgspec.structs.replace(
        run, verdict="FAIL", findings=(*run.findings, finding), inconclusive=None, refuted=()
    )


def broken_document(
    what: str, spec: str, contract: Contract, settings: AuditSettings, meta: doc.Meta
) -> doc.AuditRun:
    """Return the FAIL of code that broke the audit of it."""
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=spec,
        contract=contract,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab,
        tolerance=settings.tolerance or TOLERANCE["float64"],
        verdict="FAIL",
        tier="exact",
        findings=(doc.Finding(kind="process", text=what),),
        reproduce=settings.command(spec, contract),
        meta=meta,
        engine_path=settings.checkout,
        pair=settings.pair,
        bridge=settings.bridge,
    )


def _audit(
    subject: Subject,
    chosen: Contract,
    settings: AuditSettings,
    hints: Hints,
    reproduce: str | None,
    say: Callable[[str], None],
    kept: Kept | None,
) -> doc.AuditRun:
    if settings.batch_mix is not None:
        return audit_company(subject, settings, reproduce, say)
    whole, subject = subject, subject.one_row() if settings.batch else subject
    if settings.eos is not None and chosen == "verify" and subject.coin_bits is None:
        subject = subject.ended_by(settings.eos)
    stamp = stamped()
    calling = calling_of(whole, subject, chosen, settings)
    scheme = calling.scheme
    say("edge probes")
    drafter = subject.rule if chosen == "draft" else None
    probes = probes_of(calling.whole, calling.one, calling.contract, settings, drafter)
    say("exact tier")
    tolerance = settings.tolerance
    if tolerance is None:
        tolerance = subject.tolerance  # None: by the precision that is met
    models = instances_of(subject, chosen, scheme, settings, hints)
    hung = any(probe.hung for probe in probes)
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
    findings = findings_of(tier, probes)
    if needs_sampling(findings, tier, settings.batch):
        say(f"sampled tier: {'whole batches' if is_whole(tier) else reason(tier)}")
        sampled = _sample(calling, settings, say)
        if sampled.reason == KEEPS_DRAWS and kept is not None and kept.put_back():
            sampled = _sample(calling, settings, say)
        findings += sampled.tier.findings
    verdict = verdict_of(findings, tier, sampled)
    failure = tier.failure
    shown = next((judged for judged in tier.failures if judged.deviates), None)
    violated = next((judged for judged in tier.failures if judged.violated), None)
    held = tier.held
    tolerance = held.tolerance if held else tolerance or TOLERANCE["float64"]
    # What the clock chose stands on the command that repeats the run.
    detect = settings.detect if sampled is None else sampled.tier.detect
    command = replace(settings, detect=detect).command(subject.name, chosen)
    trial = None if sampled is None else sampled.trial
    # The rows that a call may ask for, and the tokens that are compared.
    way: Contract = "step" if generates(subject, chosen) else chosen
    broken = breach(violated, way) if violated else None
    findings = with_sources(findings, subject, chosen, broken)
    bridge, line = settings.bridge, getattr(tier.not_enumerable, "line", None)
    if (watch := current()) is not None:
        watch.counts = False  # rules of the catalogue are called from here on
    say("faults it resembles" if failure else "faults it refutes")
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=subject.name,
        contract=chosen,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab,
        tolerance=tolerance,
        dtype=None if held is None else held.dtype,
        verdict=verdict,
        tier="exact" if sampled is None else "sampled",
        paths=tier.paths,
        instances=tuple(instance_document(judged) for judged in tier.judged),
        not_enumerable=None if is_whole(tier) or failure or hung else reason(tier),
        inconclusive=why_open(tier, sampled) if verdict == "INCONCLUSIVE" else None,
        sampled=None if sampled is None else sampled.tier,
        counterexample=counterexample(shown, way) if shown else None,
        localisation=located(subject, chosen, shown, settings.tolerance) if shown else None,
        diagnosis=resemble(subject, shown, chosen) if shown else (),
        refuted=refuted(chosen, [judged.model for judged in tier.judged], tolerance)
        if verdict == "PASS" and sampled is None
        else (),
        probes=probes,
        findings=tuple(findings),
        reproduce=reproduce if reproduce and (shown or broken or trial or line) else command,
        notes=tuple(notes_of(tier, sampled, tolerance)),
        meta=stamp(),
        batch=settings.batch,
        trial=trial,
        breach=broken,
        rows=rows_document(tier.rows) if tier.rows else None,
        engine_path=settings.checkout,
        stopped=stopped(tier),
        scheme=None if scheme is None else scheme.name,
        tree=settings.tree,
        pair=settings.pair,
        bridge=None if bridge is None else msgspec.structs.replace(bridge, line=line),
    )


def _sample(calling: Calling, settings: AuditSettings, say: Callable[[str], None]) -> SampledAudit:
    subject = calling.whole
    return sample_callable(
        subject.generator_rule(),
        calling.contract,
        instances=default_instances(
            settings.gamma,
            settings.vocab,
            eos=settings.eos,
            resets=calling.contract == "step" and not takes_step_arguments(subject.rule),
        ),
        seed=settings.seed,
        alpha=settings.alpha,
        detect=settings.detect,
        coarser=settings.coarser,
        max_samples=settings.max_samples,
        seconds=settings.seconds,
        batch=settings.batch,
        say=say,
    )

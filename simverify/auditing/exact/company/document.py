"""The document of an audit in company: what failed names the kind and the place."""

from collections.abc import Callable, Iterator

import msgspec

from simverify import results as doc
from simverify.auditing.exact.company.places import kinds_of
from simverify.auditing.exact.company.trial import CompanyTrial, Tried, try_company
from simverify.auditing.exact.documents import breach, counterexample, instance_document
from simverify.auditing.exact.judging.comparison import TOLERANCE
from simverify.auditing.replay.blame.lines import located
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.auditing.verdict import findings_of, reason
from simverify.battery.judgement import stamped


def audit_company(
    subject: Subject, settings: AuditSettings, reproduce: str | None, say: Callable[[str], None]
) -> doc.AuditRun:
    """Judge batched code among the kinds of requests that the settings name.

    Edge probes are not run: they are of code that takes one block.
    """
    assert settings.batch_mix is not None
    stamp = stamped()
    trial = try_company(subject, kinds_of(settings.batch_mix), settings, say)
    findings = list(_findings(trial))
    why = _open(trial)
    verdict: doc.Verdict = "FAIL" if findings else "INCONCLUSIVE" if why else "PASS"
    failed, sampled = trial.failed, _joined([x.tier for x in trial.sampled])
    failures = failed.tier.failures if failed is not None else []
    shown = next((judged for judged in failures if judged.deviates), None)
    violated = next((judged for judged in failures if judged.violated), None)
    held = max((x.tier.held for x in trial.tried if x.tier.held), key=lambda h: h.tolerance,
               default=None)  # fmt: skip
    command = settings.command(subject.name, "verify")
    refused = next((x for x in trial.tried if x.tier.not_enumerable is not None), None)
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=subject.name,
        contract="verify",
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab,
        tolerance=held.tolerance if held else settings.tolerance or TOLERANCE["float64"],
        dtype=None if held is None else held.dtype,
        verdict=verdict,
        tier="exact" if sampled is None else "sampled",
        paths=sum(x.tier.paths for x in trial.tried),
        instances=tuple(instance_document(j) for x in trial.tried for j in x.tier.judged),
        not_enumerable=None if refused is None else _at(refused, reason(refused.tier)),
        inconclusive=why if verdict == "INCONCLUSIVE" else None,
        sampled=sampled,
        counterexample=counterexample(shown, "verify") if shown else None,
        localisation=located(failed.subject, "verify", shown, settings.tolerance)
        if failed is not None and shown
        else None,
        findings=tuple(findings),
        reproduce=reproduce if reproduce and failures else command,
        notes=tuple(f"sampled: {x.hurried}" for x in trial.sampled if x.hurried),
        meta=stamp(),
        breach=breach(violated, "verify") if violated else None,
        engine_path=settings.checkout,
        company=settings.batch_mix,
    )


def _at(tried: Tried, text: str) -> str:
    return f"{tried.place.name}: {text}"


def _findings(trial: CompanyTrial) -> Iterator[doc.Finding]:
    for tried in trial.tried:
        for found in findings_of(tried.tier, ()):
            yield msgspec.structs.replace(found, text=_at(tried, found.text))
    if trial.seeds:
        yield doc.Finding(kind="contract", text=trial.seeds)
    for sampled in trial.sampled:
        for found in sampled.tier.findings:
            broke = found.kind == "contract" and sampled.trial is not None
            where = f"{sampled.trial.instance.name}: " if broke and sampled.trial else ""
            yield msgspec.structs.replace(found, text=where + found.text)


def _joined(tiers: list[doc.SampledTier]) -> doc.SampledTier | None:
    """Return one sampled tier of several that shared the false-alarm rate; None of none."""
    if len(tiers) < 2:
        return tiers[0] if tiers else None
    found = [tier.detectable for tier in tiers]
    bounds = [tier.certificate for tier in tiers]
    held = [x for x in bounds if x is not None]
    worst = max(held, key=lambda x: x.bound) if len(held) == len(bounds) else None
    return msgspec.structs.replace(
        tiers[0],
        samples=sum(tier.samples for tier in tiers),
        looks=max(tier.looks for tier in tiers),
        alpha=sum(tier.alpha for tier in tiers),
        detect=max(tier.detect for tier in tiers),
        tests=tuple(test for tier in tiers for test in tier.tests),
        detectable=None if None in found else max(x for x in found if x is not None),
        certificate=worst and msgspec.structs.replace(worst, delta=sum(x.delta for x in held)),
        optimality="; ".join(tier.optimality for tier in tiers if tier.optimality) or None,
        findings=tuple(finding for tier in tiers for finding in tier.findings),
        instances=tuple(one for tier in tiers for one in tier.instances),
        faults=None,
        localisation=next((tier.localisation for tier in tiers if tier.localisation), None),
    )


def _open(trial: CompanyTrial) -> str | None:
    """Say why what was not seen to fail does not pass either; None where it does."""
    for late in trial.late:
        return _at(late, reason(late.tier))
    if trial.open:
        return trial.open
    for sampled in trial.sampled:
        if sampled.verdict != "PASS":
            return sampled.reason or "the promised power was not reached"
    return None

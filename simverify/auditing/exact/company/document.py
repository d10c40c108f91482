"""The document of an audit in company: what failed names the kind and the place."""

from collections.abc import Callable, Iterator

import msgspec

from simverify import results as doc
from simverify.auditing.exact.company.places import kinds_of
from simverify.auditing.exact.company.trial import CompanyTrial, Tried, try_company
from simverify.auditing.exact.documents import breach, counterexample, instance_document
from simverify.auditing.exact.judging.comparison import TOLERANCE
from simverify.auditing.replay.lines import located
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.auditing.verdict import findings_of, is_whole, reason
from simverify.battery.judgement import stamped


def audit_company(
    subject: Subject, settings: AuditSettings, reproduce: str | None, say: Callable[[str], None]
) -> doc.AuditRun:
    """Judge batched code among the kinds of requests that the settings name.

    Edge probes are not run: they are of code that takes one block.
    """
    assert settings.company is not None
    stamp = stamped()
    trial = try_company(subject, kinds_of(settings.company), settings, say)
    findings = list(_findings(trial))
    why = _open(trial)
    verdict: doc.Verdict = "FAIL" if findings else "INCONCLUSIVE" if why else "PASS"
    failed = trial.failed
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
        vocab_size=settings.vocab_size,
        tolerance=held.tolerance if held else settings.tolerance or TOLERANCE["float64"],
        dtype=None if held is None else held.dtype,
        verdict=verdict,
        tier="exact" if trial.sampled is None else "sampled",
        paths=sum(x.tier.paths for x in trial.tried),
        instances=tuple(instance_document(j) for x in trial.tried for j in x.tier.judged),
        not_enumerable=None if refused is None else _at(refused, reason(refused.tier)),
        inconclusive=why if verdict == "INCONCLUSIVE" else None,
        sampled=None if trial.sampled is None else trial.sampled.tier,
        counterexample=counterexample(shown, "verify") if shown else None,
        localisation=located(failed.subject, "verify", shown, settings.tolerance)
        if failed is not None and shown
        else None,
        findings=tuple(findings),
        reproduce=reproduce if reproduce and failures else command,
        meta=stamp(),
        breach=breach(violated, "verify") if violated else None,
        engine_path=settings.engine_path,
        company=settings.company,
    )


def _at(tried: Tried, text: str) -> str:
    return f"{tried.place.name}: {text}"


def _findings(trial: CompanyTrial) -> Iterator[doc.Finding]:
    for tried in trial.tried:
        for found in findings_of(tried.tier, ()):
            yield msgspec.structs.replace(found, text=_at(tried, found.text))
    if trial.seeds:
        yield doc.Finding(kind="contract", text=trial.seeds)
    if trial.sampled is not None:
        yield from trial.sampled.tier.findings


def _open(trial: CompanyTrial) -> str | None:
    """Say why what was not seen to fail does not pass either; None where it does."""
    for tried in trial.tried:
        if not is_whole(tried.tier):
            return _at(tried, reason(tried.tier))
    if trial.open:
        return trial.open
    if trial.sampled is not None and trial.sampled.verdict != "PASS":
        return trial.sampled.reason or "the promised power was not reached"
    if not trial.tried and trial.sampled is None:
        return "nothing was tried"
    return None

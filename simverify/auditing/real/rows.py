"""An audit on the rows of real models: edge probes, calls, tests, and the document of it all."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from simverify import results as doc
from simverify.auditing.coverage.reach import reach_of
from simverify.auditing.coverage.watch import Watch, watching
from simverify.auditing.exact.judging.comparison import TOLERANCE
from simverify.auditing.probes.named_lines import finding
from simverify.auditing.probes.run import probe_findings, probes_of
from simverify.auditing.process.quiet import global_generators, quiet
from simverify.auditing.real.calls import Kept
from simverify.auditing.run import covered
from simverify.auditing.sampled.documents import tests_findings
from simverify.auditing.sampled.emissions import Misuse
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.battery.by_position import certify_output, judge_output
from simverify.battery.judgement import (
    Judgement,
    certificate_document,
    faults_document,
    finite,
    stamped,
    suspect_document,
    test_document,
)
from simverify.symbolic.guards.containment import contained

_DELTA = 1e-3
_POWER = 0.9


@dataclass(frozen=True)
class Ground:
    """What code is called on, in the words of its document.

    ``plan``: what will be done. ``why``: why no path is followed. ``more``: what to do for more
    tokens. ``command``: repeats the audit. ``notes``: go before the others. ``scheme``, ``tree``:
    of draft trees that the code judges, how siblings are drafted and children per level.
    """

    name: str
    gamma: int
    vocab_size: int
    plan: str
    why: str
    more: str
    command: str
    notes: tuple[str, ...] = ()
    scheme: str | None = None
    tree: str | None = None


def audit_on(
    ground: Ground,
    subject: Subject,
    contract: Literal["verify", "step", "tree"],
    settings: AuditSettings,
    kept: Kept,
    call: Callable[[], None],
    say: Callable[[str], None],
    *,
    probed: Subject | None = None,
) -> doc.AuditRun:
    """Probe ``subject``, let ``call`` call it and hand everything to ``kept``, and judge that.

    ``probed``: a rule for draft trees as a step rule that drafts for itself.
    """
    stamp = stamped()
    broken, judged = None, None
    watch = Watch(reach_of(subject.rule).codes, always=settings.strict_coverage)
    with contained(), watching(watch):
        say("edge probes")
        if contract == "tree":
            assert probed is not None
            probes = probes_of(probed, probed, "step", settings)
        else:
            probes = probes_of(subject, subject, contract, settings)
        if not any(probe.hung for probe in probes):
            say(ground.plan)
            try:
                with global_generators(settings.seed), quiet():
                    call()
                judged = judge_output(kept.tokens.features, settings.alpha)
            except Misuse as misuse:
                broken = str(misuse)
    run = _document(ground, subject, contract, settings, probes, kept, judged, broken, stamp())
    return covered(run, watch, settings) if watch.watched else run


def repeated(words: Sequence[str], settings: AuditSettings) -> str:
    """Return the command of ``words`` with the settings that count on real rows."""
    return shlex.join([*words, *settings.words(always=("seed", "alpha", "detect"))])


def _document(
    ground: Ground,
    subject: Subject,
    contract: Literal["verify", "step", "tree"],
    settings: AuditSettings,
    probes: tuple[doc.Probe, ...],
    kept: Kept,
    judged: Judgement | None,
    broken: str | None,
    meta: doc.Meta,
) -> doc.AuditRun:
    if broken is not None:
        of_tier = [finding("contract", broken)]
    else:
        of_tier = tests_findings(judged.findings if judged else ())
    findings = probe_findings(probes) + of_tier
    short = judged is not None and judged.detectable > settings.detect
    verdict: doc.Verdict = "FAIL" if findings else "INCONCLUSIVE" if short else "PASS"
    bound = None
    if verdict == "PASS":
        bound = certificate_document(certify_output(kept.tokens.features, _DELTA))
    instance = doc.SampledModel(
        name=ground.name, vocab_size=ground.vocab_size, gamma=ground.gamma,
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
        optimality=None if judged is None else kept.optimality,
        findings=tuple(of_tier),
        instances=(instance,),
        # The named faults are of rules for a single draft.
        faults=None if judged is None or contract == "tree" else faults_document(judged.named),
        localisation=None if judged is None else suspect_document(judged.located),
    )
    return doc.AuditRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=subject.name,
        contract=contract,
        seed=settings.seed,
        gamma=ground.gamma,
        vocab_size=ground.vocab_size,
        tolerance=TOLERANCE["float64"],
        verdict=verdict,
        tier="sampled",
        not_enumerable=ground.why,
        inconclusive=_short(ground, judged, settings) if short and not findings else None,
        sampled=tier,
        probes=probes,
        findings=tuple(findings),
        notes=(*ground.notes, *_notes(judged, kept, failed=bool(findings))),
        reproduce=ground.command,
        meta=meta,
        engine_path=settings.checkout,
        scheme=ground.scheme,
        tree=ground.tree,
    )


def _notes(judged: Judgement | None, kept: Kept, *, failed: bool) -> list[str]:
    if judged is None:
        return []
    n = kept.tokens.features.n
    notes = [f"{n:,} tokens are judged; what is promised is of: {judged.deviation}"]
    if not failed and kept.optimality is not None:
        notes.append(kept.optimality)
    return notes


def _short(ground: Ground, judged: Judgement | None, settings: AuditSettings) -> str:
    assert judged is not None
    return (
        f"{ground.name}: the tokens promise a TV of {judged.detectable:.3g}, not "
        f"{settings.detect:g}: {ground.more}"
    )

"""The audit turned on the catalogue: every fault must be caught, every control must pass."""

from collections.abc import Callable, Iterator
from typing import Literal

from simverify import results as doc
from simverify.auditing.exact.instances.made import instances_for
from simverify.auditing.exact.tier import examine
from simverify.auditing.probes.run import run_probes
from simverify.auditing.sampled.tables import default_instances
from simverify.auditing.sampled.tier import sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.battery.judgement import stamped
from simverify.faults import CONTROLS, FAULTS
from simverify.verifiers import VERIFIERS


def self_test(
    settings: AuditSettings, *, progress: Callable[[str], None] | None = None
) -> doc.SelfTestRun:
    """Turn the audit on the catalogue; its document lists every entry in the order of trial."""
    stamp = stamped()
    tried = tuple(try_all(settings, progress=progress))
    unexpected = tuple(entry.name for entry in tried if not entry.as_expected)
    return doc.SelfTestRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab_size,
        alpha=settings.alpha,
        detect=settings.detect,
        verdict="FAIL" if unexpected else "PASS",
        results=tried,
        unexpected=unexpected,
        meta=stamp(),
    )


def try_all(
    settings: AuditSettings, *, progress: Callable[[str], None] | None = None
) -> Iterator[doc.Tried]:
    """Try the project's rules and the controls, then the faults, one by one.

    temperature-0 is left out: it is lossy on purpose wherever the target is not one-hot.
    """
    say = progress or (lambda _line: None)
    entries: list[tuple[Subject, Literal["fault", "control"]]] = [
        *(
            (Subject(name, v.rule, v.contract), "control")
            for name, v in VERIFIERS.items()
            if name != "temperature-0"
        ),
        *((Subject(name, c.rule, c.contract), "control") for name, c in CONTROLS.items()),
        *((Subject(name, f.rule, f.contract), "fault") for name, f in FAULTS.items()),
    ]
    for subject, kind in entries:
        say(subject.name)
        assert subject.contract is not None
        assert subject.contract != "tree", "the catalogue has blocks and step rules"
        yield _try(subject, subject.contract, kind, settings)


def _try(
    subject: Subject,
    contract: Literal["verify", "step"],
    kind: Literal["fault", "control"],
    settings: AuditSettings,
) -> doc.Tried:
    def tried(
        tier: Literal["exact", "sampled", "probe"],
        caught: bool,
        effort: int,
        tv: float | None = None,
    ) -> doc.Tried:
        return doc.Tried(
            name=subject.name, kind=kind, caught=caught, tier=tier, effort=effort, tv=tv
        )

    if kind == "fault" and FAULTS[subject.name].caught_by == "probe":
        # Their law is right but for an event at u = 0: a warning counts as caught.
        probes = run_probes(subject.rule, contract)
        caught = any(probe.outcome in ("warning", "violation") for probe in probes)
        return tried("probe", caught, len(probes))
    batch = FAULTS[subject.name].batch if kind == "fault" else None
    tier = examine(
        subject.one_row() if batch else subject,
        contract,
        instances_for(contract, settings.gamma, settings.vocab_size, settings.seed),
        tolerance=subject.tolerance,
        max_paths=settings.paths_for(subject),
        seconds=settings.seconds,
        seed=settings.seed,
        searching=False,
    )
    refused = tier.not_enumerable
    violated = refused is not None and any(f.severity == "violation" for f in refused.findings)
    if tier.failure is not None or violated or (refused is None and batch is None):
        tv = None if tier.failure is None else tier.failure.comparison.tv
        return tried("exact", tier.failure is not None or violated, tier.paths, tv)
    sampled = sample_callable(
        subject.rule,
        contract,
        instances=default_instances(settings.gamma, settings.vocab_size),
        seed=settings.seed,
        alpha=settings.alpha,
        detect=settings.detect,
        max_samples=settings.max_samples,
        seconds=settings.seconds,
        batch=batch,
    )
    return tried("sampled", sampled.verdict == "FAIL", sampled.tier.samples)

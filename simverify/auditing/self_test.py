"""The audit turned on the catalogue: every fault must be caught, every control must pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from simverify import results as doc
from simverify.auditing.calling import calling_of, instances_of
from simverify.auditing.exact.company.places import kinds_of
from simverify.auditing.exact.company.trial import try_company
from simverify.auditing.exact.instances.hinted import Hints
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.trees import telling_trees
from simverify.auditing.exact.tier import examine
from simverify.auditing.probes.run import run_probes
from simverify.auditing.sampled.tables import default_instances
from simverify.auditing.sampled.tier import sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject
from simverify.battery.judgement import stamped
from simverify.faults import COMPANY, CONTROLS, FAULTS
from simverify.faults.families.drafters import itself, misreported
from simverify.trees import SCHEMES, Scheme
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS


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
        vocab_size=settings.vocab,
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
    for entry in _entries():
        say(entry.subject.name)
        yield _try(entry, settings)


@dataclass(frozen=True)
class _Entry:
    subject: Subject
    contract: Contract
    kind: Literal["fault", "control"]

    def instances(self, scheme: Scheme | None, settings: AuditSettings) -> list[SmallModel]:
        """Return the instances of its trial: where it judges draft trees, a few that tell most."""
        models = instances_of(self.subject, self.contract, scheme, settings, Hints())
        return models if scheme is None else telling_trees(models)


def _entries() -> Iterator[_Entry]:
    for name, v in VERIFIERS.items():
        if not v.modes:
            yield _Entry(Subject(name, v.rule, v.contract), v.contract, "control")
    for name, t in TREE_VERIFIERS.items():
        # Some have the name of a rule for chains.
        subject = Subject(f"{name} (tree)", t.rule, "tree", scheme=t.schemes[0], fits=t.fits)
        yield _Entry(subject, "tree", "control")
    for name in SCHEMES:
        rule = misreported(itself, itself, name)
        yield _Entry(Subject(f"drafter ({name})", rule, "draft", scheme=name), "draft", "control")
    for name, c in CONTROLS.items():
        yield _Entry(Subject(name, c.rule, c.contract), c.contract, "control")
    for name, f in FAULTS.items():
        subject = Subject(name, f.rule, f.contract, batch=f.batch, scheme=f.scheme)
        yield _Entry(subject, f.contract, "fault")

    for name, company in COMPANY.items():
        subject = Subject(name, company.rule, "verify", company=company.kinds)
        yield _Entry(subject, "verify", "control" if name == "in-company" else "fault")


def _in_company(entry: _Entry, settings: AuditSettings) -> doc.Tried:
    """Try a rule for requests that differ in the company that it names."""
    subject = entry.subject
    assert subject.company is not None
    trial = try_company(subject, kinds_of(subject.company), settings, lambda _line: None)
    failed = trial.failed
    caught = trial.caught or any(sampled.verdict == "FAIL" for sampled in trial.sampled)
    return doc.Tried(
        name=subject.name,
        kind=entry.kind,
        caught=caught,
        tier="exact",
        effort=sum(tried.tier.paths for tried in trial.tried),
        tv=failed.tier.failure.comparison.tv if failed and failed.tier.failure else None,
    )


def _try(entry: _Entry, settings: AuditSettings) -> doc.Tried:
    subject, contract, kind = entry.subject, entry.contract, entry.kind

    if subject.company is not None:
        return _in_company(entry, settings)

    def tried(
        tier: Literal["exact", "sampled", "probe"],
        caught: bool,
        effort: int,
        tv: float | None = None,
    ) -> doc.Tried:
        return doc.Tried(
            name=subject.name, kind=kind, caught=caught, tier=tier, effort=effort, tv=tv
        )

    batch = subject.batch
    one = subject.one_row() if batch else subject
    calling = calling_of(subject, one, contract, settings)
    if kind == "fault" and FAULTS[subject.name].caught_by == "probe":
        # Their law is right but for an event at u = 0: a warning counts as caught.
        probes = run_probes(calling.one.rule, calling.contract)
        caught = any(probe.outcome in ("warning", "violation") for probe in probes)
        return tried("probe", caught, len(probes))
    tier = examine(
        one,
        contract,
        entry.instances(calling.scheme, settings),
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
        calling.whole.rule,
        calling.contract,
        instances=default_instances(settings.gamma, settings.vocab),
        seed=settings.seed,
        alpha=settings.alpha,
        detect=settings.detect,
        max_samples=settings.max_samples,
        seconds=settings.seconds,
        batch=batch,
    )
    return tried("sampled", sampled.verdict == "FAIL", sampled.tier.samples)

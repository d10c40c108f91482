"""An audit: probes, the exact tier, the sampled tier where it must, and one verdict.

Run here, or in a child process that survives what the code does to it. The self-test audits the
whole catalogue of faults and controls.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from types import CodeType
from typing import Literal, Protocol, TypeVar

import msgspec

from simverify import results as doc
from simverify.auditing import exact_tier, instances, mixed_batches, replay, verdict
from simverify.auditing.blame import add_exception_sources, locate_deviation
from simverify.auditing.comparison import TOLERANCE_BY_DTYPE
from simverify.auditing.coverage import (
    CoverageMonitor,
    ReachableCode,
    current_monitor,
    describe_missed,
    find_reachable,
    measure_coverage,
    monitor_coverage,
)
from simverify.auditing.enumeration import (
    takes_draft_arguments,
    takes_step_arguments,
    takes_tree_arguments,
)
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import (
    ExactResult,
    followed_processing,
    judges_generations,
    nearest_faults,
    refuted_faults,
)
from simverify.auditing.instances import SmallModel
from simverify.auditing.invocation import GpuLost
from simverify.auditing.probes import (
    HANG_PRONE_PROBES,
    exercise_rule,
    run_probes,
    run_subject_probes,
)
from simverify.auditing.sampled_runs import default_sampled_instances
from simverify.auditing.sampled_tier import STALE_DRAWS_REASON, SampledAudit, sample_callable
from simverify.auditing.sandbox import ChildDeath, run_in_child
from simverify.auditing.search import LiteralHints, literal_tree_instances
from simverify.auditing.settings import (
    BATCH_SIZE,
    FIRST_SLOT,
    AuditSettings,
    batch_slot_of,
    parse_batch_mixes,
    processing_document,
)
from simverify.auditing.subject import Contract, Subject, check_contract
from simverify.battery.battery import start_meta
from simverify.disk_cache import write_results
from simverify.engines.bridge import REQUEST_PREFIX
from simverify.errors import OptionError, SimverifyError, UsageError
from simverify.faults import CONTROLS, FAULTS, MIXED_BATCH_RULES
from simverify.faults.drafters import misreported, unchanged_row
from simverify.symbolic.equal_streams import equal_keys, noted_equal_streams
from simverify.symbolic.hidden_state import UNCHANGED_STATE, HiddenState
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.promotion import remembered_holders
from simverify.symbolic.provenance import (
    CannotEnumerate,
    OutOfTime,
    portable_path,
    source_line,
    unwrap,
)
from simverify.symbolic.watchdog import (
    DeadlineExpired,
    SharedModules,
    contain_process,
    deadline,
    report_activity,
)
from simverify.trees import SCHEMES, Drafting, Scheme, get_scheme, shape_of_levels
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

# Plain calls of code, whose paths are not followed: edge probes and the sampled tier.
#
# A tree rule then drafts its trees itself, as a step rule does. A drafter's trees are judged by
# recursive rejection. All other code is called as it is.


_DEFAULT_TREE_LEVELS = ((2, 1), (2,), (1, 1))
"""Children per level where no tree is named."""


@dataclass(frozen=True)
class Invocation:
    """``whole``: the code with its batch axis, if it has one; ``one`` takes one block.

    ``scheme``: how the siblings of draft trees are drafted; None for all other code.
    """

    whole: Subject
    one: Subject
    contract: Literal["verify", "step"]
    scheme: Scheme | None = None


def make_invocation(
    whole: Subject, one: Subject, contract: Contract, settings: AuditSettings
) -> Invocation:
    """Return how code of ``contract`` is called.

    Raises ``UsageError`` where the tree contract has no scheme, or another one has one, and for
    a tree that the code does not take. A drafter's siblings are independent where nothing is said.
    """
    if contract == "verify" or contract == "step":
        if settings.scheme is not None:
            raise UsageError(
                f"--scheme {settings.scheme} is for draft trees: name --contract tree too"
            )
        return Invocation(whole, one, contract)
    if contract == "draft" and settings.processing is not None:
        raise OptionError(
            f"{settings.target_options()} states the target of code that emits tokens: leave it "
            "out for a drafter"
        )
    if contract == "draft" and settings.eos is not None:
        raise UsageError("--eos is for code that emits tokens: leave it out for a drafter")
    try:
        (takes_draft_arguments if contract == "draft" else takes_tree_arguments)(one.rule)
    except ValueError as error:
        raise UsageError(f"{one.name}: {error}") from None
    name = settings.scheme or one.scheme or (None if contract == "tree" else "iid")
    if name is None:
        raise UsageError(
            f"--contract tree needs --scheme, how siblings are drafted: {', '.join(SCHEMES)}"
        )
    scheme = get_scheme(name)
    # The best shape first, where code drafts itself.
    usual = (shape_of_levels(levels[: settings.gamma]) for levels in _DEFAULT_TREE_LEVELS)
    shapes = [x for x in ([settings.shape] if settings.shape else usual) if one.fits(x)]
    if not shapes:
        raise UsageError(f"{one.name} does not take the tree {settings.tree}: name another one")
    itself = one.drafting_itself(Drafting(shapes[0], scheme), contract)
    return Invocation(itself, itself, "step", scheme)


def exact_instances(
    subject: Subject,
    contract: Contract,
    scheme: Scheme | None,
    settings: AuditSettings,
    hints: LiteralHints,
) -> list[SmallModel]:
    """Return the instances of the exact tier."""
    gamma, vocab, seed = settings.gamma, settings.vocab, settings.seed
    if scheme is not None:
        drafts = contract == "draft"
        make = instances.draft_instances if drafts else instances.tree_instances
        models = make(scheme, gamma, vocab, seed, settings.shape)
        kind: Literal["draft", "tree"] = "draft" if drafts else "tree"
        models += literal_tree_instances(hints, scheme, kind, settings.shape)
        if drafts:
            return models
        models = [m for m in models if m.drafting is not None and subject.fits(m.drafting.shape)]
        # The simplest trees that there are: a large vocabulary has many outputs.
        shapes = sorted({m.drafting.shape for m in models if m.drafting}, key=len)[:2]
        return _processed(models, settings, [Drafting(shape, scheme) for shape in shapes])
    assert contract == "verify" or contract == "step", "the others have a scheme"
    models = instances.instances_for(contract, gamma, vocab, seed, settings.eos)
    return _processed([*models, *hints.models(contract, settings.eos)], settings, ())


def _processed(
    models: Iterable[SmallModel], settings: AuditSettings, draftings: Sequence[Drafting]
) -> list[SmallModel]:
    """Return the instances for the target that is stated, with those on which that shows."""
    if (processing := settings.processing) is None:
        return list(models)
    made = (instances.with_processing(model, processing) for model in models)
    telling = instances.processing_instances(processing, settings.gamma, draftings)
    return [*(model for model in made if model is not None), *telling]


def audit(
    subject: Subject,
    contract: Contract | None = None,
    settings: AuditSettings | None = None,
    *,
    reproduce: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Audit ``subject`` and return the document.

    ``contract`` is needed where the subject does not say its own; "verify" by default.
    ``reproduce``: the command that shows a counterexample or a failing trial again; by default the
    audit itself. ``progress`` receives a line when something begins that may take a while. Raises
    ``UsageError`` if the code cannot be called under the contract at all.
    """
    settings = (settings or AuditSettings()).for_subject(subject)
    say = progress or (lambda _line: None)
    subject, settings = mixed_batches.with_batch_mix(subject, settings)
    company = BATCH_SIZE if settings.batch_mix else None
    chosen = check_contract(subject, contract, settings.batch or company)
    mixed_batches.check_takes_batch(subject, settings)
    stamp, shared = start_meta(), SharedModules()
    reach = find_reachable(subject.rule) if settings.bridge is None else ReachableCode()
    hints = LiteralHints.among(reach.numbers, chosen, settings.gamma, settings.vocab)
    watch = CoverageMonitor(reach.codes, always=settings.strict_coverage, named=reach.named)
    state = HiddenState(subject.rule, None) if reach.codes else None
    known, same_keys = noted_equal_streams(subject.rule), equal_keys(subject.rule)
    with contain_process() as noise, monitor_coverage(watch), known, remembered_holders():
        try:
            run = _run_tiers(subject, chosen, settings, hints, reproduce, say, state)
            changed = shared.restore()
        except Exception:
            # The error may come from what the code has replaced.
            changed = shared.restore()
            if not changed:
                raise
            run = audit_failure(changed, subject.name, chosen, settings, stamp())
        else:
            if changed:
                run = _as_failed(run, doc.Finding(kind="process", text=changed))
        write_results(trusted=not changed)
    if watch.watched:
        run = add_coverage(run, watch, settings, hints.numbers)
        keeps = state is not None and state.image() != UNCHANGED_STATE
        built = chosen == "step" and not takes_step_arguments(subject.rule)
        run = add_call_extent(run, watch, keeps=keeps or built)
    run = add_source_lines(run, subject.rule)
    if same_keys and run.tier == "sampled":
        run = msgspec.structs.replace(run, notes=(same_keys, *run.notes))
    if subject.note:
        run = msgspec.structs.replace(run, notes=(subject.note, *run.notes))
    if noise.size:
        note = f"prints {noise.size:,} bytes, which are not shown; they begin with {noise.line!r}"
        run = msgspec.structs.replace(run, notes=(*run.notes, note))
    return run


def add_coverage(
    run: doc.AuditRun,
    watch: CoverageMonitor,
    settings: AuditSettings,
    numbers: tuple[float, ...] = (),
) -> doc.AuditRun:
    """Return ``run`` with what its calls reached; a FAIL where all lines were asked for.

    ``numbers``: those of the code that led to instances.
    """
    measured = measure_coverage(list(watch.instructions.values()))
    coverage = msgspec.structs.replace(measured, numbers=tuple(map(float, numbers)))
    run = msgspec.structs.replace(run, coverage=coverage)
    if not (settings.strict_coverage and coverage.not_reached):
        return run
    lines = ", ".join(describe_missed(missed) for missed in coverage.not_reached)
    return _as_failed(run, doc.Finding(kind="coverage", text=f"not reached: {lines}"))


_MAX_CODE_LINES = 6


def add_source_lines(run: doc.AuditRun, rule: Callable[..., object]) -> doc.AuditRun:
    """Return a failed ``run`` with the text of the lines that it names, or of the rule's first."""
    if run.verdict != "FAIL":
        return run
    places: list[str] = []
    if (place := run.localisation) is not None:
        places += (*place.lines, *(place.sources or ()))
    elif run.sampled is not None and (suspect := run.sampled.localisation) is not None:
        places += suspect.lines
    for finding in run.findings:
        places += (finding.line,) if finding.line else ()
        places += (*(finding.callers or ()), *(finding.sources or ()))
    code = getattr(unwrap(rule), "__code__", None)
    if not places and isinstance(code, CodeType):
        places.append(portable_path(f"{code.co_filename}:{code.co_firstlineno}"))
    texts = {place: source_line(place) for place in places}
    known = tuple((place, text) for place, text in texts.items() if text)
    return msgspec.structs.replace(run, code=known[:_MAX_CODE_LINES])


def add_call_extent(run: doc.AuditRun, watch: CoverageMonitor, *, keeps: bool) -> doc.AuditRun:
    """Return ``run`` with how far its calls went; ``keeps``: the code may keep something."""
    if run.coverage is None or run.contract not in ("verify", "step"):
        return run
    prefix = watch.prefix if run.contract == "step" else msgspec.UNSET
    calls = watch.row if keeps else msgspec.UNSET
    coverage = msgspec.structs.replace(run.coverage, prefix=prefix, calls=calls)
    return msgspec.structs.replace(run, coverage=coverage)


def _as_failed(run: doc.AuditRun, finding: doc.Finding) -> doc.AuditRun:
    """Return ``run`` as the FAIL that one more finding makes of it."""
    return msgspec.structs.replace(
        run, verdict="FAIL", findings=(*run.findings, finding), inconclusive=None, refuted=()
    )


def audit_failure(
    what: str, spec: str, contract: Contract, settings: AuditSettings, meta: doc.Meta
) -> doc.AuditRun:
    """Return the FAIL of code that broke the audit of it."""
    finding = doc.Finding(kind="process", text=what)
    return settings.document(
        spec, contract, None, verdict="FAIL", tier="exact", findings=(finding,), meta=meta
    )


_SETTLED_SECONDS = 6.0
"""Limit of the exact tier where a probe has failed already: it says more, and decides nothing."""


def _run_tiers(
    subject: Subject,
    chosen: Contract,
    settings: AuditSettings,
    hints: LiteralHints,
    reproduce: str | None,
    say: Callable[[str], None],
    kept: HiddenState | None,
) -> doc.AuditRun:
    if settings.batch_mix is not None:
        return mixed_batches.audit_mixed_batches(subject, settings, reproduce, say)
    whole, subject = subject, subject.one_row() if settings.batch else subject
    if settings.eos is not None and chosen == "verify" and subject.coin_bits is None:
        subject = subject.ended_by(settings.eos)
    stamp = start_meta()
    calling = make_invocation(whole, subject, chosen, settings)
    scheme = calling.scheme
    say("edge probes")
    drafter = subject.rule if chosen == "draft" else None
    probes = run_subject_probes(calling.whole, calling.one, calling.contract, settings, drafter)
    say("exact tier")
    tolerance = settings.tolerance
    if tolerance is None:
        tolerance = subject.tolerance  # None: by the precision that is met
    models = exact_instances(subject, chosen, scheme, settings, hints)
    hung = any(probe.hung for probe in probes)
    tier = exact_tier.ExactTier()
    budget = settings.budget_for(subject)
    if budget.seconds is not None and any(probe.outcome == "violation" for probe in probes):
        budget = replace(budget, seconds=min(budget.seconds, _SETTLED_SECONDS))
    if not hung:  # more of it would only hang again
        tier = run_exact_tier(
            subject,
            chosen,
            models,
            tolerance=tolerance,
            budget=budget,
            seed=settings.seed,
        )
    sampled = None
    findings = verdict.audit_findings(tier, probes)
    limit = None if verdict.is_complete(tier) else verdict.exact_tier_limit(tier)
    if verdict.needs_sampling(findings, tier, settings.batch):
        say(f"sampled tier: {limit or 'whole batches'}")
        sampled = _run_sampled_tier(calling, settings, say)
        if sampled.reason == STALE_DRAWS_REASON and kept is not None and kept.put_back():
            sampled = _run_sampled_tier(calling, settings, say)
        findings += sampled.tier.findings
    findings = verdict.equal_streams_findings(findings, tier, sampled) + findings
    decision = verdict.decide_verdict(findings, tier, sampled)
    failure = tier.failure
    shown = next((judged for judged in tier.failures if judged.deviates), None)
    violated = next((judged for judged in tier.failures if judged.violated), None)
    held = tier.held
    tolerance = held.tolerance if held else tolerance or TOLERANCE_BY_DTYPE["float64"]
    # The command that repeats the run says what the clock chose.
    detect = settings.detect if sampled is None else sampled.tier.detect
    command = replace(settings, detect=detect).command(subject.name, chosen)
    trial = None if sampled is None else sampled.trial
    # The rows that a call may ask for, and the tokens that are compared.
    judged_as: Contract = "step" if judges_generations(subject, chosen) else chosen
    broken = exact_tier.make_breach(violated, judged_as) if violated else None
    findings = add_exception_sources(findings, subject, chosen, broken)
    bridge, line = settings.bridge, getattr(tier.not_enumerable, "line", None)
    if (watch := current_monitor()) is not None:
        watch.counts = False  # rules of the catalogue are called from here on
    say("faults it resembles" if failure else "faults it refutes")
    return settings.document(
        subject.name,
        chosen,
        held,
        tolerance=tolerance,
        verdict=decision,
        tier="exact" if sampled is None else "sampled",
        paths=tier.paths,
        instances=tuple(exact_tier.instance_document(judged) for judged in tier.judged),
        not_enumerable=None if failure or hung else limit,
        inconclusive=verdict.inconclusive_reason(tier, sampled)
        if decision == "INCONCLUSIVE"
        else None,
        sampled=None if sampled is None else sampled.tier,
        counterexample=exact_tier.make_counterexample(shown, judged_as) if shown else None,
        localisation=locate_deviation(subject, chosen, shown, settings.tolerance)
        if shown
        else None,
        diagnosis=nearest_faults(subject, shown, chosen) if shown else (),
        # Draws of one stream are the cause, and no processing of rows.
        follows=processing_document(
            followed_processing(subject, chosen, shown.model, models, settings.tolerance)
        )
        if shown and not verdict.equal_streams(tier)
        else None,
        refuted=refuted_faults(chosen, [judged.model for judged in tier.judged], tolerance)
        if decision == "PASS" and sampled is None
        else (),
        probes=probes,
        findings=tuple(findings),
        reproduce=reproduce if reproduce and (shown or broken or trial or line) else command,
        notes=tuple(verdict.tier_notes(tier, sampled, tolerance)),
        meta=stamp(),
        batch=settings.batch,
        trial=trial,
        breach=broken,
        rows=exact_tier.rows_document(tier.rows) if tier.rows else None,
        stopped=verdict.clock_stop(tier),
        left_out=len(tier.skipped),
        scheme=None if scheme is None else scheme.name,
        tree=settings.tree,
        bridge=None if bridge is None else msgspec.structs.replace(bridge, line=line),
    )


def _run_sampled_tier(
    calling: Invocation, settings: AuditSettings, say: Callable[[str], None]
) -> SampledAudit:
    subject, contract = calling.whole, calling.contract
    resets = contract == "step" and not takes_step_arguments(subject.rule)
    sizes = settings.gamma, settings.vocab
    return sample_callable(
        subject.generator_rule(),
        contract,
        instances=default_sampled_instances(
            *sizes, eos=settings.eos, resets=resets, processing=settings.processing
        ),
        batch=settings.batch,
        say=say,
        **settings.sampling(),
    )


# An audit in a child process: code that ends, kills or blocks its process is a finding.


_CRASH_TEST_SECONDS = 2.0

Auditor = Callable[..., doc.AuditRun]
"""An audit of a subject, with keywords ``settings`` and ``progress``."""


class Recorder(Protocol):
    """Notes what a verdict depends on, from before the code is loaded."""

    def keep(self, run: doc.AuditRun) -> None:
        """Keep the verdict for the next audit."""


def supervised_audit(
    load: Callable[[], Subject],
    contract: Contract | None,
    settings: AuditSettings,
    *,
    spec: str,
    reproduce: str | None = None,
    auditor: Auditor | None = None,
    progress: Callable[[str], None] | None = None,
    record: Callable[[], Recorder] | None = None,
) -> doc.AuditRun:
    """Audit what ``load`` returns in a child process.

    ``auditor`` replaces :func:`audit`; ``reproduce`` is then the command that repeats it.
    ``record`` begins to note what the verdict depends on, and keeps it. A child
    that dies is a FAIL that says how and where. Raises ``SimverifyError`` if the child dies while
    ``load`` runs, and as ``load`` and the audit do. After a probe that ends the use of the GPU, or
    in which right code may wait for ever, the audit starts again in another child, without it.
    """
    say = progress or (lambda _line: None)
    stamp = start_meta()

    def work(report: Callable[[str], None]) -> doc.AuditRun:
        shared, recorder = SharedModules(), record() if record else None
        subject = load()
        try:
            with closing(subject):
                if auditor is not None:
                    return auditor(subject, settings=settings, progress=report)
                run = audit(subject, contract, settings, reproduce=reproduce, progress=report)
            if recorder is not None:
                recorder.keep(run)
            return run
        except SimverifyError:
            raise
        except Exception:
            # A module that replaces a shared name when it is loaded may mean well.
            changed = shared.restore()
            if not changed:
                raise
            return again(audit_failure(changed, spec, contract or "verify", settings, stamp()))

    def again(run: doc.AuditRun) -> doc.AuditRun:
        if auditor is None or reproduce is None:
            return run
        return msgspec.structs.replace(run, reproduce=reproduce)

    run: doc.AuditRun | ChildDeath
    while True:
        try:
            run = run_in_child(work, say)
            if (waits := _waiting_probe(run)) is None or waits in settings.lost:
                break
            say(f"starting again: the probe {waits.name!r} waits for ever, as right code may")
            settings = replace(settings, lost=(*settings.lost, waits))
        except GpuLost as error:
            name = error.probe
            if error.process == os.getpid() or name in {one.name for one in settings.lost}:
                raise
            say(f"starting again: the probe {name!r} ended the use of the GPU by its process")
            grade: Literal["warning", "violation"]
            grade = "warning" if error.grade == "warning" else "violation"
            probe = doc.Probe(name=name, outcome=grade, message=error.text)
            settings = replace(settings, lost=(*settings.lost, probe))
    if not isinstance(run, ChildDeath):
        return run
    if not run.place:
        what = spec if auditor is None else f"{spec}, or what it runs on,"
        raise SimverifyError(f"{what} fails to load: {run.how}")
    return again(_crash_report(run, spec, contract or "verify", settings, stamp()))


def _waiting_probe(run: doc.AuditRun | ChildDeath) -> doc.Probe | None:
    """Return the warning of a probe in which right code may wait, where nothing interrupts it."""
    if not isinstance(run, ChildDeath) or not run.hung:
        return None
    name = run.place.removeprefix("the probe '").removesuffix("'")
    if name not in HANG_PRONE_PROBES:
        return None
    return doc.Probe(name=name, outcome="warning", message=run.how)


Replayed = TypeVar("Replayed")


def _in_child(
    show: Callable[[Subject, doc.AuditRun], Replayed],
) -> Callable[[Callable[[], Subject], doc.AuditRun], Replayed]:
    """Make of ``show(subject, run)`` what loads the subject and shows it in a child process.

    Raises ``SimverifyError`` if the child dies, or if the code cannot be followed any more.
    """

    def replay_in_child(load: Callable[[], Subject], run: doc.AuditRun) -> Replayed:
        def work(_: Callable[[str], None]) -> Replayed:
            try:
                with closing(load()) as subject, contain_process():
                    return show(subject, run)
            except (CannotEnumerate, OutOfTime, TooManyPaths) as error:
                raise SimverifyError(f"{run.spec} has changed since the audit: {error}") from None

        result: Replayed | ChildDeath = run_in_child(work, lambda _line: None)
        if isinstance(result, ChildDeath):
            raise SimverifyError(f"{run.spec} ends the replay: {result.how}")
        return result

    replay_in_child.__name__, replay_in_child.__doc__ = show.__name__, show.__doc__
    return replay_in_child


def _as_enumerated(subject: Subject, run: doc.AuditRun, instance: doc.Instance) -> Subject:
    """Return the code as it was enumerated: batched code on a single block, up to ``eos``."""
    if run.company:
        subject = mixed_batches.embed_in_batch(subject, batch_slot_of(instance.name))
    elif run.batch:
        subject = subject.one_row()
    if instance.eos is not None and run.contract == "verify":
        subject = subject.ended_by(instance.eos)
    return subject


@_in_child
def supervised_explain(subject: Subject, run: doc.AuditRun) -> replay.Explanation:
    """Return the paths to the counterexample of ``run``, found in a child process."""
    example = run.counterexample
    assert example is not None
    subject = _as_enumerated(subject, run, example.instance)
    if subject.coin_bits is not None:
        return replay.explain_coins(subject, example.instance, example.sequence)
    if example.call is not None:
        return replay.explain_draft(subject.rule, example)
    given = run.contract, example.instance, example.sequence
    return replay.explain_output(subject.generator_rule(), *given)


@_in_child
def supervised_breach(subject: Subject, run: doc.AuditRun) -> tuple[str, ...]:
    """Return the paths on which ``run.breach`` happens again, replayed in a child process."""
    breach = run.breach
    assert breach is not None
    subject = _as_enumerated(subject, run, breach.instance)
    if subject.coin_bits is not None:
        return replay.replay_coin_breach(subject, breach)
    return replay.replay_contract_breach(subject.generator_rule(), run.contract, breach)


@_in_child
def supervised_trial(subject: Subject, run: doc.AuditRun) -> str:
    """Replay ``run.trial`` in a child process."""
    assert run.trial is not None
    settings = AuditSettings(scheme=run.scheme, tree=run.tree)
    if run.contract in ("tree", "draft"):
        settings = replace(settings, gamma=run.gamma)
    calling = make_invocation(subject, subject, run.contract, settings)
    rule = calling.whole.generator_rule()
    return replay.replay_trial(rule, calling.contract, run.trial, seed=run.seed, batch=run.batch)


@_in_child
def supervised_line(subject: Subject, run: doc.AuditRun) -> str:
    """Ask once more, in a child process, what broke the program of ``run``."""
    assert run.bridge is not None
    assert run.bridge.line is not None
    return replay.replay_line(subject, run.bridge.line)


def find_crash(
    subject: Subject, contract: Contract, settings: AuditSettings
) -> doc.AuditRun | None:
    """Call the code a few times in a child process; return the FAIL of code that kills it.

    For an audit that shares its process, as a test's does. None where all is well, or where a
    process cannot be forked: off Linux, or with a GPU in use.
    """
    torch = sys.modules.get("torch")
    if sys.platform != "linux" or not sys.modules.keys().isdisjoint(("jax", "mlx.core")):
        return None
    if torch and torch.cuda.is_initialized():
        return None
    stamp, settings = start_meta(), settings.for_subject(subject)

    def work(_: Callable[[str], None]) -> None:
        report_activity("a first call")
        with contain_process(), deadline(_CRASH_TEST_SECONDS), suppress(DeadlineExpired, Exception):
            one = subject.one_row() if settings.batch else subject
            if settings.batch_mix:
                one = mixed_batches.embed_in_batch(subject, FIRST_SLOT)
            calling = make_invocation(subject, one, contract, settings)
            exercise_rule(calling.one.rule, calling.contract)

    died = run_in_child(work, lambda _line: None)
    # A lock that another thread held at the fork may block a child: that is nobody's fault.
    if not isinstance(died, ChildDeath) or died.hung:
        return None
    return _crash_report(died, subject.name, contract, settings, stamp())


def _crash_report(
    died: ChildDeath, spec: str, contract: Contract, settings: AuditSettings, meta: doc.Meta
) -> doc.AuditRun:
    """Return the FAIL of code that took the process of its audit down."""
    kind = "hangs" if died.hung else "ends the process"
    place, separator, line = died.place.partition(f", {REQUEST_PREFIX}")
    finding = f"{kind}: {died.how}, in {place}"
    run = audit_failure(finding, spec, contract, settings, meta)
    if not separator or run.bridge is None:
        return run
    bridge = msgspec.structs.replace(run.bridge, line=line)
    return msgspec.structs.replace(run, bridge=bridge, notes=(f"asked when it broke: {line}",))


# The self-test: every fault must be caught, every control must pass.


def self_test(
    settings: AuditSettings, *, progress: Callable[[str], None] | None = None
) -> doc.SelfTestRun:
    """Turn the audit on the catalogue; its document lists every entry in the order of trial."""
    stamp = start_meta()
    results = tuple(audit_catalogue(settings, progress=progress))
    unexpected = tuple(entry.name for entry in results if not entry.as_expected)
    return doc.SelfTestRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab,
        alpha=settings.alpha,
        detect=settings.detect,
        verdict="FAIL" if unexpected else "PASS",
        results=results,
        unexpected=unexpected,
        meta=stamp(),
    )


def audit_catalogue(
    settings: AuditSettings, *, progress: Callable[[str], None] | None = None
) -> Iterator[doc.Tried]:
    """Try the project's rules and the controls, then the faults, one by one.

    temperature-0 is left out: it is lossy on purpose wherever the target is not one-hot.
    """
    say = progress or (lambda _line: None)
    for entry in _catalogue_entries():
        say(entry.subject.name)
        yield _audit_entry(entry, settings)


@dataclass(frozen=True)
class _CatalogueEntry:
    subject: Subject
    kind: Literal["fault", "control"] = "control"


def _catalogue_entries() -> Iterator[_CatalogueEntry]:
    for name, v in VERIFIERS.items():
        if not v.modes:
            yield _CatalogueEntry(Subject(name, v.rule, v.contract))
    for name, t in TREE_VERIFIERS.items():
        # Some have the name of a rule for chains.
        tree = f"{name} (tree)"
        yield _CatalogueEntry(Subject(tree, t.rule, "tree", scheme=t.schemes[0], fits=t.fits))
    for name in SCHEMES:
        rule = misreported(unchanged_row, unchanged_row, name)
        yield _CatalogueEntry(Subject(f"drafter ({name})", rule, "draft", scheme=name))
    for name, c in CONTROLS.items():
        yield _CatalogueEntry(Subject(name, c.rule, c.contract))
    for name, f in FAULTS.items():
        subject = Subject(name, f.rule, f.contract, batch=f.batch, scheme=f.scheme)
        yield _CatalogueEntry(subject, "fault")
    for name, company in MIXED_BATCH_RULES.items():
        subject = Subject(name, company.rule, "verify", company=company.kinds)
        yield _CatalogueEntry(subject, "control" if name == "in-company" else "fault")


def _audit_entry(entry: _CatalogueEntry, settings: AuditSettings) -> doc.Tried:
    """Try one entry; a rule for requests that differ is tried in the company that it names."""
    subject, kind, batch = entry.subject, entry.kind, entry.subject.batch
    contract = check_contract(subject, None, None)

    def tried(
        tier: Literal["exact", "sampled", "probe"],
        caught: bool,
        effort: int,
        failure: ExactResult | None = None,
    ) -> doc.Tried:
        tv, name = None if failure is None else failure.comparison.tv, subject.name
        return doc.Tried(name=name, kind=kind, caught=caught, tier=tier, effort=effort, tv=tv)

    if subject.company is not None:
        kinds = parse_batch_mixes(subject.company)
        trial = mixed_batches.try_mixed_batches(subject, kinds, settings, lambda _line: None)
        caught = trial.caught or any(sampled.verdict == "FAIL" for sampled in trial.sampled)
        effort = sum(slot.tier.paths for slot in trial.tried)
        return tried("exact", caught, effort, trial.failed.tier.failure if trial.failed else None)
    one = subject.one_row() if batch else subject
    calling = make_invocation(subject, one, contract, settings)
    if kind == "fault" and FAULTS[subject.name].caught_by == "probe":
        # The law is right except at u = 0: a warning counts as caught.
        probes = run_probes(calling.one.rule, calling.contract)
        caught = any(probe.outcome in ("warning", "violation") for probe in probes)
        return tried("probe", caught, len(probes))
    models = exact_instances(subject, contract, calling.scheme, settings, LiteralHints())
    tier = run_exact_tier(
        one,
        contract,
        # For draft trees a few instances tell most.
        models if calling.scheme is None else instances.fault_revealing_trees(models),
        tolerance=subject.tolerance,
        budget=settings.budget_for(subject),
        seed=settings.seed,
        searching=False,
    )
    refused = tier.not_enumerable
    violated = refused is not None and any(f.severity == "violation" for f in refused.findings)
    if tier.failure is not None or violated or (refused is None and batch is None):
        caught = tier.failure is not None or violated
        return tried("exact", caught, tier.paths, tier.failure)
    sampled = sample_callable(
        calling.whole.rule,
        calling.contract,
        instances=default_sampled_instances(settings.gamma, settings.vocab),
        batch=batch,
        **settings.sampling() | {"coarser": ()},
    )
    return tried("sampled", sampled.verdict == "FAIL", sampled.tier.samples)

"""Audits on the rows of real models or of a trace: the code decodes, and its tokens are judged."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from simverify import results as doc
from simverify import trees
from simverify.auditing import coverage
from simverify.auditing.comparison import TOLERANCE_BY_DTYPE
from simverify.auditing.enumeration import check_token_ids, takes_tree_arguments
from simverify.auditing.invocation import build_step_rule, make_finding, read_result
from simverify.auditing.probes import probe_findings, run_subject_probes
from simverify.auditing.run import add_coverage
from simverify.auditing.sampled_runs import CALL_HANG_SECONDS, ContractMisuse
from simverify.auditing.sampled_tier import findings_of_tests
from simverify.auditing.sandbox import seeded_global_generators, suppress_warnings
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, check_contract
from simverify.auditing.trees import build_tree_rule, reset_tree_rule
from simverify.battery import battery
from simverify.checks import MAX_GAMMA
from simverify.drafting.method import DraftMethod
from simverify.errors import OptionError, UsageError
from simverify.models import transformer
from simverify.models.trace import open_trace
from simverify.simulators.decoding.job import TokenSums, make_job
from simverify.simulators.decoding.loop import (
    RULES,
    Block,
    ContextExceeded,
    LaneStatistics,
    ModelError,
    block_curves,
    decode,
    decode_steps,
)
from simverify.simulators.decoding.replayed import TraceReplay, trace_blocks
from simverify.simulators.decoding.trees import TreeBlock, TreeExpectation, decode_trees
from simverify.symbolic import watchdog
from simverify.symbolic.outcomes import InvalidTokens, Tokens, describe_exception

STEP_SECONDS = 600.0
"""As :data:`CALL_HANG_SECONDS`, of a call that asks models for rows, which may be slow ones."""

_INTERVAL_CONFIDENCE = 0.999


class _Caller:
    """Code under audit, called on copies of rows; a broken contract is a ``ContractMisuse``."""

    def __init__(self, rule: Callable[..., Any], vocab_size: int) -> None:
        self._rule, self._vocab_size = rule, vocab_size
        self._reset: Callable[[], Any] | None = None

    def reset(self) -> None:
        """Begin a new request, which a rule without state does not notice."""
        if self._reset is not None:
            _call_within(self._reset, seconds=CALL_HANG_SECONDS)

    def _tokens(self, *arguments: Any, seconds: float) -> Tokens:
        result = _call_within(self._rule, *arguments, seconds=seconds)
        try:
            tokens = read_result(result)
            check_token_ids(tokens, self._vocab_size)
        except InvalidTokens as error:
            raise ContractMisuse(f"{error.kind}: {error}") from None
        return tokens


class BlockCaller(_Caller):
    """A ``verify`` rule as a judge of drafted blocks."""

    def judge(
        self, _position: int, p: Any, q: Any, drafts: Any, rng: np.random.Generator
    ) -> list[int]:
        """Return the tokens of a block."""
        watchdog.report_activity("a block of real models")
        x = tuple(int(token) for token in drafts)
        given = p.copy(), q.copy(), np.array(x, np.int64)
        tokens = self._tokens(*given, rng, seconds=CALL_HANG_SECONDS)
        if tokens[:-1] != x[: len(tokens) - 1]:
            raise ContractMisuse(
                f"not-a-prefix: returned {tokens} for the draft {x}: all but the last "
                f"token must be an accepted prefix of the draft"
            )
        return list(tokens)


class TreeCaller(_Caller):
    """A rule for draft trees, or with ``builds`` what builds an object with one."""

    def __init__(self, rule: Callable[..., Any], vocab_size: int, *, builds: bool = False) -> None:
        super().__init__(rule, vocab_size)
        if builds:
            built = _call_within(build_tree_rule, rule, seconds=CALL_HANG_SECONDS)
            self._rule, self._reset = built.tree, partial(reset_tree_rule, built)

    def judge(
        self, tree: trees.DraftTree, given: Mapping[str, Any], rng: np.random.Generator
    ) -> Tokens:
        """Return the tokens of a call on ``tree``; ``given``: its arguments by their names."""
        watchdog.report_activity("a draft tree of a model")
        tokens = self._tokens(*given.values(), rng, seconds=CALL_HANG_SECONDS)
        if tokens[:-1] not in {tree.text(node) for node in range(trees.ROOT, len(tree.tokens))}:
            raise ContractMisuse(
                f"not-a-prefix: returned {tokens} for the tree {tree.drawn()}: all but the last "
                f"token must be a way from its root"
            )
        return tokens


class StepCaller(_Caller):
    """A ``step`` rule, built anew, as the loop calls it."""

    def __init__(self, rule: Callable[..., Any], vocab_size: int) -> None:
        step, reset = _call_within(build_step_rule, rule, seconds=CALL_HANG_SECONDS)
        super().__init__(step, vocab_size)
        self._reset = reset

    def step(
        self,
        prefix: Tokens,
        target: trees.RowAfter,
        draft: trees.RowAfter,
        gamma: int,
        rng: np.random.Generator,
    ) -> Tokens:
        """Return the tokens that follow ``prefix``."""
        watchdog.report_activity("a call on real models")
        return self._tokens(prefix, target, draft, gamma, rng, seconds=STEP_SECONDS)


class CallRecorder:
    """Observer of calls: their tokens, judged, and of drafts what was accepted.

    ``drafted``: whether drafts are given to the rule; ``drafting``: how, if they are trees.
    ``state``: whether it may keep something from call to call.
    """

    def __init__(
        self,
        *,
        gamma: int,
        lanes: int,
        seed: int,
        drafted: bool,
        drafting: trees.Drafting | None = None,
        state: bool = False,
    ) -> None:
        # Of a rule that may carry state, as one without drafts, absolute positions alone follow
        # the target.
        by_slot = drafted and not state
        self.tokens = TokenSums(
            gamma=gamma, lanes=lanes, seed=seed, by_slot=by_slot, one_draft=drafting is None
        )
        self.calls = 0
        self._accepted = LaneStatistics(lanes, 2) if drafted else None
        self._trees, self._state = None if drafting is None else TreeExpectation(drafting), state

    def __call__(self, block: Block) -> None:
        """Count a call on a drafted block, or of a rule that drafts for itself."""
        drafted = self._accepted is not None
        self._count(block, block_curves(block)[RULES.index("block")] if drafted else ())

    def tree(self, call: TreeBlock) -> None:
        """Count a call on a draft tree."""
        assert self._trees is not None
        memoryless, of_any = self._trees.levels(call.drawn)
        self._count(call.block, of_any if self._state else memoryless)

    def _count(self, block: Block, optimum: Any) -> None:
        self.calls += 1
        if self._accepted is not None:
            self._accepted.add(block.lane, [block.tau, float(optimum.sum())])
        self.tokens.add(block)

    @property
    def optimality(self) -> str | None:
        """E[tau] beside the optimum's on the same drafts, in words; None without drafts."""
        if self._accepted is None:
            return None
        tau, best, less = (
            self._accepted.interval(weights, _INTERVAL_CONFIDENCE)
            for weights in ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0))
        )
        where, reference = "blocks" if self._trees is None else "trees", "block's"
        if self._trees is not None:
            counted = self._trees.by == "counting"
            reference = "no rule's above" if counted else "the best rule's"
        return (
            f"E[tau] = {tau.mean:.4f} ({tau.low:.4f} to {tau.high:.4f}), {reference} "
            f"{best.mean:.4f} "
            f"on the same {where}: {less.mean:+.4f} ({less.low:+.4f} to {less.high:+.4f})"
        )


def _call_within(call: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    try:
        with watchdog.deadline(seconds):
            return coverage.call_monitored(call, *arguments)
    except watchdog.DeadlineExpired:
        raise ContractMisuse(f"hangs: did not return within {seconds:g} s") from None
    except (ContextExceeded, ModelError):
        raise  # no fault of the code
    except InvalidTokens as error:
        raise ContractMisuse(f"{error.kind}: {error}") from None
    except BaseException as error:  # the code may raise anything, SystemExit too
        if watchdog.is_user_interrupt(error):
            raise
        raise ContractMisuse(f"raises: {describe_exception(error)}") from None


_CERTIFICATE_DELTA = 1e-3
_DETECTION_POWER = 0.9


@dataclass(frozen=True)
class RowSource:
    """What code is called on, in the words of its document."""

    name: str
    gamma: int
    vocab_size: int
    plan: str  # what will be done
    why: str  # why no path is followed
    more: str  # what to do for more tokens
    command: str  # repeats the audit
    notes: tuple[str, ...] = ()  # go before the others
    scheme: str | None = None  # how siblings of trees are drafted
    tree: str | None = None  # children per level


def audit_on_rows(
    ground: RowSource,
    subject: Subject,
    contract: Literal["verify", "step", "tree"],
    settings: AuditSettings,
    record: CallRecorder,
    call: Callable[[], None],
    say: Callable[[str], None],
    *,
    probed: Subject | None = None,
) -> doc.AuditRun:
    """Probe ``subject``, let ``call`` call it and hand everything to ``record``, and judge that.

    ``probed``: a rule for draft trees as a step rule that drafts for itself.
    """
    stamp = battery.start_meta()
    of_tier: list[doc.Finding] = []
    judged = None
    watch = coverage.CoverageMonitor(
        coverage.find_reachable(subject.rule).codes, always=settings.strict_coverage
    )
    with watchdog.contain_process(), coverage.monitor_coverage(watch):
        say("edge probes")
        of_probes, probed_as = (subject, contract) if probed is None else (probed, "step")
        assert probed_as != "tree"
        probes = run_subject_probes(of_probes, of_probes, probed_as, settings)
        if not any(probe.hung for probe in probes):
            say(ground.plan)
            try:
                with seeded_global_generators(settings.seed), suppress_warnings():
                    call()
                judged = battery.judge_output(record.tokens.features, settings.alpha)
                of_tier = findings_of_tests(judged.findings)
            except ContractMisuse as misuse:
                of_tier = [make_finding("contract", str(misuse))]
    findings = probe_findings(probes) + of_tier
    verdict: doc.Verdict = "FAIL" if findings else "PASS"
    inconclusive, notes = None, list(ground.notes)
    if findings and contract != "tree":
        notes.append(
            "an audit without models names the lines, if the code fails on small instances too: "
            f"{shlex.join(['simverify', 'audit', subject.name, '--contract', contract])}"
        )
    if judged is not None:
        n = record.tokens.features.n
        notes.append(f"{n:,} tokens are judged; what is promised is of: {judged.deviation}")
        notes += [record.optimality] if record.optimality and not findings else []
        if not findings and judged.detectable > settings.detect:
            verdict = "INCONCLUSIVE"
            inconclusive = (
                f"{ground.name}: the tokens promise a TV of {judged.detectable:.3g}, not "
                f"{settings.detect:g}: {ground.more}"
            )
    run = doc.AuditRun(
        **settings.document_fields(),
        spec=subject.name,
        contract=contract,
        gamma=ground.gamma,
        vocab_size=ground.vocab_size,
        tolerance=TOLERANCE_BY_DTYPE["float64"],
        verdict=verdict,
        tier="sampled",
        not_enumerable=ground.why,
        inconclusive=inconclusive,
        sampled=_tier_document(ground, contract, settings, record, judged, of_tier, verdict),
        probes=probes,
        findings=tuple(findings),
        notes=tuple(notes),
        reproduce=ground.command,
        meta=stamp(),
        scheme=ground.scheme,
        tree=ground.tree,
    )
    return add_coverage(run, watch, settings) if watch.watched else run


def reproduce_command(words: Sequence[str], settings: AuditSettings) -> str:
    """Return the command of ``words`` with the settings that count on real rows."""
    return shlex.join([*words, *settings.words(always=("seed", "alpha", "detect"))])


def _tier_document(
    ground: RowSource,
    contract: Contract,
    settings: AuditSettings,
    record: CallRecorder,
    judged: battery.TestReport | None,
    findings: Sequence[doc.Finding],
    verdict: doc.Verdict,
) -> doc.SampledTier:
    bound = None
    if verdict == "PASS":
        certificate = battery.certify_output(record.tokens.features, _CERTIFICATE_DELTA)
        bound = battery.certificate_document(certificate)
    detectable = None if judged is None else battery.finite_or_none(judged.detectable)
    instance = doc.SampledModel(
        name=ground.name,
        vocab_size=ground.vocab_size,
        gamma=ground.gamma,
        samples=record.calls,
        detect=settings.detect,
        detectable=detectable,
        bound=None if bound is None else bound.bound,
    )
    return doc.SampledTier(
        samples=record.calls,
        looks=0 if judged is None else 1,
        alpha=settings.alpha,
        detect=settings.detect,
        power=_DETECTION_POWER,
        tests=() if judged is None else tuple(battery.test_document(test) for test in judged.tests),
        detectable=detectable,
        certificate=bound,
        optimality=None if judged is None else record.optimality,
        findings=tuple(findings),
        instances=(instance,),
        # The named faults are of rules for a single draft.
        faults=None
        if judged is None or contract == "tree"
        else battery.faults_document(judged.named),
        localisation=None if judged is None else battery.suspect_document(judged.located),
    )


@dataclass(frozen=True)
class LiveModels:
    """A pair of models, as ``load_pair`` takes them, and how code decodes on it.

    Raises ``UsageError`` if gamma is out of range.
    """

    target: str
    draft: str | None
    prompts: Path | None = None  # None for the bundled ones
    gamma: int = 4
    tokens: int | None = None  # to emit; None for as many as ``detect`` needs
    contract: Contract | None = None  # None where the code says its own
    sampling: transformer.Sampling = field(default_factory=transformer.Sampling)
    device: str = "cpu"
    dtype: transformer.Dtype = "float32"
    threads: int | None = None  # of torch; None leaves them
    scheme: str | None = None
    tree: str | None = None
    method: DraftMethod = field(default_factory=DraftMethod)

    def __post_init__(self) -> None:
        if not 1 <= self.gamma <= MAX_GAMMA:
            raise UsageError(f"gamma is {self.gamma}: expected 1 to {MAX_GAMMA}")

    def load(self) -> tuple[transformer.TransformerPair, Sequence[str]]:
        """Return the models and the texts of the prompts."""
        texts = transformer.read_prompts(self.prompts or transformer.BUNDLED / "prompts.jsonl")
        pair = transformer.load_pair(
            self.target, self.draft, sampling=self.sampling, device=self.device, dtype=self.dtype
        )
        return pair, texts

    def drafting(self, subject: Subject, contract: Contract) -> trees.Drafting | None:
        """Return how trees are drafted for ``subject``; None for code that judges no trees.

        Raises ``UsageError`` for a scheme or a tree that is missing, or not for this code.
        """
        if contract != "tree":
            for option, value in (("scheme", self.scheme), ("tree", self.tree)):
                if value is not None:
                    what = f"--{option} {value} is for draft trees"
                    raise UsageError(f"{what}: name --contract tree too")
            return None
        name = self.scheme or subject.scheme
        if name is None:
            known = ", ".join(trees.SCHEMES)
            raise UsageError(f"--contract tree needs --scheme, how siblings are drafted: {known}")
        if self.tree is not None:
            shape = trees.parse_levels(self.tree)
        else:
            two, one = (trees.shape_of_levels([k] + [1] * (self.gamma - 1)) for k in (2, 1))
            shape = two if subject.fits(two) else one
        if shape.depth > self.gamma:
            raise UsageError(
                f"the tree has a depth of {shape.depth}, above gamma {self.gamma}: cut it, or "
                "raise gamma"
            )
        if not subject.fits(shape):
            given = f"{subject.name} does not take the tree {_shape_text(shape)}"
            raise UsageError(f"{given}: name another one")
        return trees.Drafting(shape, trees.get_scheme(name))

    def command(self, spec: str, settings: AuditSettings) -> str:
        """Return the command that repeats the audit of ``spec``."""
        law = self.sampling
        own = ("target", "draft", "prompts", "gamma", "tokens", "contract", "scheme", "tree")
        given: tuple[tuple[str, Any, Any], ...] = (
            *((f"--{name}", getattr(self, name), None) for name in own),
            ("--temperature", law.temperature, 1.0),
            ("--top-k", law.top_k, None),
            ("--top-p", law.top_p, None),
            ("--device", self.device, "cpu"),
            ("--dtype", self.dtype, "float32"),
            ("--threads", self.threads, None),
            ("--drafter", self.method.name, "plain"),
        )
        words = ["simverify", "audit", spec]
        for option, value, default in given:
            if value is not None and value != default:
                words += [option, str(value)]
        if self.method.name == "easyspec":
            words += ["--layer-parallel", str(self.method.layer_parallel)]
            words += [] if self.method.calibration else ["--no-calibration"]
        return reproduce_command(words, settings)


def audit_on_models(
    subject: Subject,
    live: LiveModels,
    settings: AuditSettings,
    *,
    loaded: tuple[transformer.TransformerPair, Sequence[str]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Put ``subject`` on trial in the decoding loop, on a pair of real models.

    A ``verify`` rule gets the blocks of a batch of requests, a ``tree`` rule their draft trees; a
    ``step`` rule decodes request after request. Every emitted token is judged against the target's
    row before it. Of ``settings``, the error rates, the seed and what is strict count. ``loaded``:
    the pair and the prompts, if they are there already. Raises ``UsageError`` if the code is under
    another contract, takes whole batches or looks beyond the models' context, a model does not
    load, or a prompt is missing or too long.
    """
    contract = check_contract(subject, live.contract, settings.batch)
    if contract == "draft":
        raise UsageError(
            f"{subject.name} is a drafter: audit it on small instances, without --target"
        )
    if settings.batch or subject.batch or subject.company:
        raise UsageError(f"{subject.name} takes whole batches: blocks come one by one here")
    drafting = live.drafting(subject, contract)
    if contract == "step" and live.method != DraftMethod():
        raise OptionError(
            "{drafter} is not for the step contract, whose code drafts for itself: leave it out"
        )
    if drafting is not None:
        live.method.check_tree_attention()
    gamma = live.gamma if drafting is None else drafting.shape.depth
    say = progress or (lambda _: None)
    enough = battery.output_tokens(settings.detect, settings.alpha)
    if loaded is None:
        say(f"loading {live.target}" + (f" and {live.draft}" if live.draft else ""))
        loaded = live.load()
    pair, texts = loaded
    tokens = enough if live.tokens is None else live.tokens
    job = make_job(pair, texts, gamma=gamma, tokens=tokens, seed=settings.seed)
    total = job.lanes * job.lane_tokens
    detectable = battery.output_detectable(total, settings.alpha)
    name = live.method.on(pair)
    ground = RowSource(
        name=name,
        gamma=job.gamma,
        vocab_size=pair.vocab_size,
        plan=f"{total:,} tokens of {name}: power .9 against TV {detectable:.3g}",
        why=f"called in the decoding loop of real models, {name}",
        more="take more --tokens",
        command=live.command(subject.name, settings),
        scheme=None if drafting is None else drafting.scheme.name,
        tree=None if drafting is None else _shape_text(drafting.shape),
    )
    builds, probed = False, None
    if drafting is not None:
        pair.check_tree_attention()
        try:
            builds = not takes_tree_arguments(subject.rule)
        except ValueError as error:
            raise UsageError(f"{subject.name}: {error}") from None
        probed = subject.drafting_itself(drafting, "tree")
    record = CallRecorder(
        gamma=job.gamma,
        lanes=job.lanes,
        seed=job.seed,
        drafted=contract != "step",
        drafting=drafting,
        state=builds,
    )
    rule = subject.generator_rule()

    def call() -> None:
        transformer.use_threads(live.threads)
        if drafting is not None:
            caller = partial(TreeCaller, rule, pair.vocab_size, builds=builds)
            decode_trees(pair, job, drafting, caller, record.tree, live.method)
        elif contract == "verify":
            judge = partial(BlockCaller, rule, pair.vocab_size)
            decode(pair, job, judge, record, method=live.method)
        else:
            decode_steps(pair, job, lambda: StepCaller(rule, pair.vocab_size), record)

    return audit_on_rows(ground, subject, contract, settings, record, call, say, probed=probed)


def _shape_text(shape: trees.TreeShape) -> str:
    return shape.words().removesuffix(" children per level")


def audit_on_trace(
    subject: Subject,
    folder: Path,
    settings: AuditSettings,
    *,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Put a ``verify`` rule on trial on the rows and drafts of the trace in ``folder``.

    Every block is one call, with fresh randomness; the tokens are judged as a real model's are. Of
    ``settings``, the error rates, the seed and what is strict count. Raises ``UsageError`` if the
    trace holds no rows, is damaged or too short, or the code is under another contract or takes
    whole batches.
    """
    trace = open_trace(folder)
    manifest = trace.manifest
    if subject.contract not in (None, "verify"):
        raise UsageError(
            f"{subject.name} has the {subject.contract} contract, and a trace holds blocks that "
            "are drafted already: audit it without --trace"
        )
    if settings.batch or subject.batch or subject.company:
        raise UsageError(f"{subject.name} takes whole batches: a trace is replayed block by block")
    if manifest.kind != "rows":
        raise UsageError(
            f"{folder} holds statistics of {', '.join(manifest.rules)}, and code under "
            f"audit needs rows: record them without --statistics"
        )
    ground = RowSource(
        name=f"trace of {manifest.name}",
        gamma=manifest.gamma,
        vocab_size=manifest.vocab_size,
        plan=f"{manifest.blocks:,} recorded blocks of {manifest.name}",
        why=f"replayed on recorded rows, the trace {trace.folder}",
        more="record more",
        command=trace_audit_command(subject.name, trace.folder, settings),
        notes=(f"the trace has sha256 {manifest.sha256}",),
    )
    lanes, tokens, seed = manifest.decoding.lanes, manifest.decoding.tokens, settings.seed
    record = CallRecorder(gamma=manifest.gamma, lanes=lanes, seed=seed, drafted=True)
    caller = BlockCaller(subject.generator_rule(), manifest.vocab_size)

    def judge(block: Block, rng: np.random.Generator) -> list[int]:
        return caller.judge(0, block.p, block.q[:-1], block.drafts, rng)

    replayed = TraceReplay(judge, record, record.tokens.add, lanes=lanes, tokens=tokens, seed=seed)

    def call() -> None:
        for block in trace_blocks(trace):
            replayed(block)
        replayed.finish()

    say = progress or (lambda _: None)
    return audit_on_rows(ground, subject, "verify", settings, record, call, say)


def trace_audit_command(spec: str, folder: Path, settings: AuditSettings) -> str:
    """Return the command that repeats the audit."""
    return reproduce_command(["simverify", "audit", spec, "--trace", str(folder)], settings)

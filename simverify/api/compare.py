"""``simverify.compare``: verifiers on simulated models, on a pair of real ones, on a trace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simverify.api.real import BUNDLED_MODEL, RealModelOptions
from simverify.auditing.measure import Workload, measure_calls, workload_contract
from simverify.auditing.sandbox import ChildDeath, run_in_child
from simverify.auditing.subject import Subject
from simverify.checks import refuse_options
from simverify.comparing.custom_rules import UserRule
from simverify.errors import OptionError, SimverifyError, UsageError
from simverify.models import DEFAULT_DISTANCE, Model
from simverify.options.compare import (
    COMPARISONS,
    NO_GAMMA,
    CaptureOptions,
    CompareOptions,
    PlanOptions,
    RealPairOptions,
    TracedOptions,
)
from simverify.options.modes import keywords
from simverify.options.option import Options
from simverify.results import CompareRun, PlanRun
from simverify.simulators.decoding.loop import RuleCalls
from simverify.trees import Drafting
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

if TYPE_CHECKING:
    from simverify.models.trace import Manifest
    from simverify.simulators.latency import Load


# User rules of a comparison: loaded and called as in an audit.


def load_user_rule(
    spec: str, load: Callable[[], Subject], shared: Mapping[str, Any], drafting: Drafting | None
) -> UserRule:
    """Return the rule called ``spec``, to be called in a child process, which it may take down.

    ``load`` is called once to see that it can be. ``drafting``: how trees are drafted for a rule
    that judges them. ``shared`` holds gamma and the seed.
    """

    def child(work: Callable[[], Any], where: str) -> Any:
        result = run_in_child(lambda _report: work(), lambda _line: None)
        if isinstance(result, ChildDeath):
            raise SimverifyError(f"{spec} ends the process {where}: {result.how}")
        return result

    contract = child(lambda: workload_contract(load()), "when it is loaded")
    if contract == "tree" and drafting is None:
        raise OptionError(
            f"{spec} judges draft trees: say which, with {{tree}} or {{drafts}}, and {{scheme}}"
        )

    def on(model: Model, calls: int, tokens: int) -> RuleCalls:
        work = Workload(model, shared["gamma"], calls, tokens, shared["seed"], drafting)
        measured: RuleCalls = child(
            lambda: measure_calls(load(), contract, work), f"on {model.name}"
        )
        return measured

    return UserRule(spec, contract, on)


# Comparisons on simulated models, of single drafts or draft trees.


DEFAULT_MODELS = ("toy", "compact", "markov-64", "ngram")
TREE_MODELS = ("toy", "compact", "markov-64")
"""By default on draft trees: those whose rules are compiled."""

DEFAULT_VERIFIERS = ("token", "block", "greedy", "match")
KERNEL_DETECT = 0.01

RuleSpec = str | Callable[..., Any]
"""A built-in verifier's name, a SPEC as an audit takes it, or a callable."""


def compare_simulated(options: CompareOptions, shared: dict[str, Any]) -> CompareRun:
    """Compare rules on simulated models, on a single draft or on draft trees."""
    from simverify.comparing.comparison import compare as compare_models
    from simverify.comparing.custom_rules import USER_RULE_DETECT

    distance, temperature = options.draft_distance, options.temperature
    models = DEFAULT_MODELS if options.models is None else options.models
    verifiers = options.verifiers
    drafting = tree_drafting(options, shared)
    if drafting is not None:
        refuse_options(
            {"calls": options.calls or None, "eos": options.eos},
            "{option} is for a single draft: leave {drafts} and {tree} out",
        )
        models = TREE_MODELS if models == DEFAULT_MODELS else models
    else:
        verifiers = DEFAULT_VERIFIERS if verifiers is None else verifiers
    own: dict[str, UserRule] = {}
    if verifiers is not None and not isinstance(verifiers, str):
        verifiers, own = _load_user_rules(verifiers, drafting, shared)
    # On ngram the rules for draft trees are called too.
    called = own or (
        drafting is not None and any(getattr(model, "name", model) == "ngram" for model in models)
    )
    return compare_models(
        models,
        verifiers,
        drafting=drafting,
        own=own,
        load=_batch_load(options),
        blocks=options.blocks,
        calls=options.calls,
        eos=options.eos,
        threads=options.threads,
        detect=(USER_RULE_DETECT if called else KERNEL_DETECT)
        if options.detect is None
        else options.detect,
        temperature=1.0 if temperature is None else temperature,
        distance=DEFAULT_DISTANCE if distance is None else distance,
        **shared,
    )


def tree_drafting(
    options: CompareOptions | RealPairOptions, shared: dict[str, Any]
) -> "Drafting | None":
    """Return how trees are drafted, None for a single draft; the depth is gamma in ``shared``."""
    if options.drafts is None and options.tree is None:
        refuse_options(
            {"scheme": options.scheme}, "{option} is for draft trees: name {drafts} or {tree}"
        )
        return None
    from simverify.comparing.trees import parse_drafting

    tree = None if options.tree is None else str(options.tree)
    drafting = parse_drafting(options.drafts, tree, options.scheme, options.gamma)
    shared["gamma"] = drafting.shape.depth
    return drafting


def _load_user_rules(
    verifiers: Sequence[RuleSpec], drafting: "Drafting | None", shared: Mapping[str, Any]
) -> "tuple[list[str], dict[str, UserRule]]":
    """Return the names of ``verifiers``, and of them the rules that are nobody's built-in ones.

    Callables, and what an audit knows by a SPEC: code, faults, engines.
    """
    built_in = {**VERIFIERS, **TREE_VERIFIERS}
    names: list[str] = []
    own: dict[str, UserRule] = {}
    for verifier in verifiers:
        if isinstance(verifier, str) and verifier in built_in:
            names.append(verifier)
            continue
        from simverify.api.audit import resolve_subject

        name, load = resolve_subject(verifier)
        names.append(name)
        if name not in own:
            own[name] = load_user_rule(name, load, shared, drafting)
    return names, own


def _batch_load(options: CompareOptions) -> "Load":
    from simverify.simulators.latency import Load

    if options.free_rows is None and options.batch_size is not None and options.batch_size != 1:
        raise OptionError(
            "{batch_size} alone changes nothing, as all rows of a call are free: name {free_rows} "
            "too, such as {free_rows} 128"
        )
    free = None if options.free_rows is None else float(options.free_rows)
    return Load(1 if options.batch_size is None else options.batch_size, free)


REAL_VERIFIERS = ("token", "block", "greedy")


@keywords(CompareOptions, *COMPARISONS)
def compare(options: Options) -> CompareRun:
    """Run every verifier on every model: lossless or not, accepted tokens, optimum, speed.

    The keywords below are those of simulated models; those of a pair of real ones are taken too
    (``target``, ``draft``, ... of :class:`~simverify.options.compare.RealPairOptions`), and of a
    recorded trace (``trace``).

    Returns
    -------
    CompareRun
        ``run.verdict``, ``run.results``, ``run.models``; ``print(run)`` shows the tables.

    Raises
    ------
    UsageError
        Unknown names, names given twice, bad files, values out of range, options that are not
        for these models.
    """
    assert isinstance(options, CompareOptions | RealPairOptions | TracedOptions)
    shared: dict[str, Any] = {
        "cost_ratio": options.cost_ratio,
        "alpha": options.alpha,
        "seed": options.seed,
        "progress": options.progress,
    }
    if isinstance(options, TracedOptions):
        return _compare_recorded_trace(options, shared)
    if options.gamma is None and options.tree is None:
        raise OptionError(NO_GAMMA)
    shared |= {"gamma": options.gamma, "seed": options.seed or 0}
    if isinstance(options, CompareOptions):
        return compare_simulated(options, shared)
    return _compare_real_pair(options, shared)


def _verifier_names(verifiers: Sequence[RuleSpec] | None) -> Sequence[str] | None:
    for verifier in verifiers or ():
        if not isinstance(verifier, str):
            raise UsageError(
                f"got {verifier!r}: on real models and traces name built-in verifiers, and audit "
                "your own with simverify.audit"
            )
    return verifiers  # type: ignore[return-value]  # names all


def _compare_real_pair(options: RealPairOptions, shared: dict[str, Any]) -> CompareRun:
    real, verifiers = RealModelOptions.of(options), _verifier_names(options.verifiers)
    if real.target is None and real.draft is None and options.models is not None:
        draft = None if real.from_texts else str(options.models[0])
        real = replace(real, target=BUNDLED_MODEL, draft=draft)
    for name in ("target",) if real.from_texts else ("target", "draft"):
        if getattr(real, name) is None:
            raise OptionError(f"{{{name}}} is missing: real models are a target and a draft")
    real.complete()
    from simverify.comparing.real import REAL_MODEL_DETECT, compare_pair
    from simverify.simulators.decoding.job import DEFAULT_LANES

    drafting = tree_drafting(options, shared)
    if drafting is None:
        verifiers = verifiers or REAL_VERIFIERS
    texts = real.texts()
    return compare_pair(
        real.load(),
        texts,
        verifiers,
        drafting=drafting,
        methods=real.methods(),
        tokens=real.tokens,
        detect=REAL_MODEL_DETECT if options.detect is None else options.detect,
        lanes=DEFAULT_LANES if options.lanes is None else options.lanes,
        prompts_file=None if real.prompts is None else str(real.prompts),
        **shared,
    )


def _compare_recorded_trace(options: TracedOptions, shared: dict[str, Any]) -> CompareRun:
    from simverify.comparing.real import REAL_MODEL_DETECT, compare_trace
    from simverify.simulators.decoding.replayed import STATELESS_RULES

    return compare_trace(
        Path(options.trace or ""),
        STATELESS_RULES if options.verifiers is None else _verifier_names(options.verifiers) or (),
        gamma=options.gamma,
        detect=REAL_MODEL_DETECT if options.detect is None else options.detect,
        **shared,
    )


# ``simverify.plan`` and the recording of a trace.


@keywords(PlanOptions)
def plan(options: PlanOptions) -> PlanRun:
    """Say what finding a deviation costs in every test, or what a budget finds in each.

    Times are those of the compiled block verifier on ``markov-V``, run here for a moment with
    everything counted that a comparison counts. At most one of ``deviation``, ``seconds`` and
    ``samples`` may be given.

    Returns
    -------
    PlanRun
        ``run.rows``; ``print(run)`` shows them.

    Raises
    ------
    UsageError
        If a value is out of range or two of the three are given.
    """
    from simverify.comparing.planning import plan as make_plan

    return make_plan(**{field.name: getattr(options, field.name) for field in fields(options)})


def run_capture(options: CaptureOptions) -> "Manifest":
    """Record the blocks of two real models in a folder."""
    for name in ("gamma", "tokens", "out"):
        if getattr(options, name) is None:
            raise OptionError(f"{{{name}}} is missing: a recording needs it")
    real = RealModelOptions.of(options)
    if options.models is not None:
        if real.target is not None or real.draft is not None:
            raise OptionError("{models} is the bundled pair: got {target} or {draft} too")
        draft = None if real.from_texts else options.models
        real = replace(real, target=BUNDLED_MODEL, draft=draft)
    method = real.method("a trace is drafted in one way")
    real.complete()
    if real.draft is None and not real.from_texts:
        raise OptionError("{draft} is missing: real models are a target and a draft")
    from simverify.comparing.capture import capture

    texts = real.texts()
    options.say(f"loading {real.target}" + (f" and {real.draft}" if real.draft else ""))
    assert options.out is not None
    return capture(
        real.load(),
        texts,
        Path(options.out),
        gamma=options.gamma or 0,
        tokens=options.tokens or 0,
        seed=options.seed,
        statistics=options.statistics,
        max_bytes=options.max_bytes,
        prompts_file=None if real.prompts is None else str(real.prompts),
        method=method,
        progress=options.progress,
    )

"""``simverify.compare``: verifiers on simulated models, on a pair of real ones, on a trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from simverify.api.compare_options import NO_GAMMA, CompareOptions
from simverify.api.real import BUNDLED, RealModels
from simverify.api.simulated import DEFAULT_MODELS, Rule, asked_trees, compare_simulated
from simverify.api.ways import called_from_python
from simverify.checks import refuse
from simverify.errors import OptionError, UsageError
from simverify.models import REAL, Model
from simverify.results import CompareRun

REAL_VERIFIERS = ("token", "block", "greedy")

Say = Callable[[str], None]


def compare(
    models: Sequence[str | Model] = DEFAULT_MODELS,
    verifiers: Sequence[Rule] | None = None,
    *,
    gamma: int | None = None,
    blocks: int | None = None,
    calls: int = 0,
    eos: int | None = None,
    drafts: int | None = None,
    tree: str | PathLike[str] | None = None,
    scheme: str | None = None,
    cost_ratio: float = 0.1,
    batch_size: int | None = None,
    free_rows: float | None = None,
    draft_distance: float | None = None,
    temperature: float | None = None,
    target: str | None = None,
    draft: str | None = None,
    prompts: str | PathLike[str] | None = None,
    tokens: int | None = None,
    lanes: int | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    drafter: str | None = None,
    layer_parallel: int | str | None = None,
    no_calibration: bool = False,
    trace: str | PathLike[str] | None = None,
    alpha: float = 1e-6,
    detect: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: Say | None = None,
) -> CompareRun:
    """Run every verifier on every model: lossless or not, accepted tokens, optimum, speed.

    Parameters
    ----------
    models
        Names (toy, compact, markov-V, ngram), files (.json, .npz), or models themselves. Or
        one real pair: tiny-llama, or tiny-llama-deep.
    verifiers
        Names of built-in verifiers; by default token, block, greedy and match, of real models
        the first three, on a trace those of them without state, and on draft trees every rule
        that is lossless there. On simulated models your own rules too: callables, or what an
        audit takes for a SPEC.
    gamma
        Draft length, 1 to 64; a trace has its own, and with a tree it is the most depth.
    blocks
        Simulated blocks per verifier; by default as many as the promised power needs.
    calls, eos
        If positive, add the tokens out after 1..``calls`` calls; ``eos`` ends a generation there.
    drafts, tree, scheme
        Several drafts: so many of ``gamma`` tokens, or a tree, as children per level ("3,2,1") or
        a JSON file ``{"parents": [-1, 0, ...]}``; and how siblings are drafted ("iid",
        "without-replacement", "top-k", "argmax-first", "last-sampled").
    cost_ratio, batch_size, free_rows
        The latency model: time of a draft token over time of a target call, sequences at a
        time, and rows that a call has for free; all of them by default.
    draft_distance, temperature
        Knobs of markov-V; ``temperature`` of real models too.
    target, draft, prompts, tokens, lanes, top_k, top_p, device, dtype
        A pair of real models instead of ``models``, and how it decodes.
    drafter, layer_parallel, no_calibration
        How real models draft: "plain", "easyspec" with that many layers a group (4, or a list
        such as "1,2,4") and without its calibration if so asked, "prompt-lookup" or "ngram".
    trace
        Replay this folder instead, as ``simverify capture`` wrote it.
    alpha
        False-alarm rate of the whole run.
    detect
        Mean one-token TV that is found with power .9, or the verdict is INCONCLUSIVE: .01, of
        real models .04.
    seed, threads
        The seed alone decides results of simulated models; threads never do.
    progress
        Receives a line when something begins that may take a while.

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
    options = CompareOptions(
        gamma=gamma, blocks=blocks, calls=calls, eos=eos, drafts=drafts,
        tree=None if tree is None else str(tree), scheme=scheme,
        cost_ratio=cost_ratio, batch_size=batch_size, free_rows=free_rows,
        draft_distance=draft_distance, temperature=temperature, target=target, draft=draft,
        prompts=None if prompts is None else Path(prompts), tokens=tokens, lanes=lanes, top_k=top_k,
        top_p=top_p, device=device, dtype=dtype, drafter=drafter,
        layer_parallel=None if layer_parallel is None else str(layer_parallel),
        no_calibration=no_calibration, trace=None if trace is None else Path(trace),
        alpha=alpha, detect=detect, seed=seed, threads=threads,
    )  # fmt: skip
    with called_from_python():
        return run_comparison(models, verifiers, options, progress=progress)


def run_comparison(
    models: Sequence[str | Model],
    verifiers: Sequence[Rule] | None,
    options: CompareOptions,
    *,
    progress: Say | None,
) -> CompareRun:
    """Compare in the way that the options ask for; those of another way are refused."""
    simulated: dict[str, Any] = {
        "blocks": options.blocks,
        "calls": options.calls or None,
        "eos": options.eos,
        "draft_distance": options.draft_distance,
        "batch_size": options.batch_size,
        "free_rows": options.free_rows,
    }
    of_trees = {"drafts": options.drafts, "tree": options.tree, "scheme": options.scheme}
    real = options.real()
    of_pairs = {
        name: value
        for name, value in vars(real).items()
        if name not in ("temperature", "threads")
    } | {"lanes": options.lanes}  # fmt: skip
    shared: dict[str, Any] = {
        "cost_ratio": options.cost_ratio,
        "alpha": options.alpha,
        "seed": options.seed,
        "progress": progress,
    }
    if options.trace is not None:
        own = of_pairs | simulated | {"temperature": real.temperature}
        refuse(of_trees, "{option} is for draft trees, and a trace holds single drafts")
        refuse(own, "{option} is not for a trace, which has its own")
        return _of_trace(options.trace, _named(verifiers), options, shared)
    if options.gamma is None and options.tree is None:
        raise OptionError(NO_GAMMA)
    shared |= {"gamma": options.gamma, "seed": options.seed or 0}
    named = len(models) == 1 and isinstance(models[0], str) and models[0] in REAL
    if real.target is None and real.draft is None and not named:
        refuse(
            of_pairs,
            "{option} is not for simulated ones: name {target} and {draft}, or {models} tiny-llama",
        )
        return compare_simulated(models, verifiers, options, shared)
    refuse(simulated, "{option} is not for real models")
    if real.target is None and real.draft is None:
        real = replace(real, target=BUNDLED, draft=None if real.from_texts else str(models[0]))
    return _of_pair(real, _named(verifiers), options, shared)


def _named(verifiers: Sequence[Rule] | None) -> Sequence[str] | None:
    for verifier in verifiers or ():
        if not isinstance(verifier, str):
            raise UsageError(
                f"got {verifier!r}: on real models and traces name built-in verifiers, and audit "
                "your own with simverify.audit"
            )
    return verifiers  # type: ignore[return-value]  # names all


def _of_pair(
    real: RealModels,
    verifiers: Sequence[str] | None,
    options: CompareOptions,
    shared: dict[str, Any],
) -> CompareRun:
    for name in ("target",) if real.from_texts else ("target", "draft"):
        if getattr(real, name) is None:
            raise OptionError(f"{{{name}}} is missing: real models are a target and a draft")
    real.complete()
    from simverify.comparing.real.pair import compare_pair
    from simverify.comparing.real.pair_rows import DETECT as FOR_PAIRS
    from simverify.simulators.decoding.job import LANES

    drafting = asked_trees(options, shared)
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
        detect=FOR_PAIRS if options.detect is None else options.detect,
        lanes=LANES if options.lanes is None else options.lanes,
        prompts_file=None if real.prompts is None else str(real.prompts),
        **shared,
    )


def _of_trace(
    folder: Path,
    verifiers: Sequence[str] | None,
    options: CompareOptions,
    shared: dict[str, Any],
) -> CompareRun:
    from simverify.comparing.real.pair_rows import DETECT as FOR_PAIRS
    from simverify.comparing.real.trace import compare_trace
    from simverify.simulators.decoding.replay_rules import STATELESS

    return compare_trace(
        folder,
        STATELESS if verifiers is None else verifiers,
        gamma=options.gamma,
        detect=FOR_PAIRS if options.detect is None else options.detect,
        **shared,
    )

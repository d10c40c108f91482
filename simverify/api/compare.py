"""``simverify.compare``: verifiers on simulated models, on a pair of real ones, on a trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from simverify.api.real import BUNDLED, RealModels
from simverify.api.ways import called_from_python, refuse
from simverify.errors import OptionError
from simverify.models import DEFAULT_DISTANCE, REAL, Model
from simverify.results import CompareRun

DEFAULT_MODELS = ("toy", "compact", "markov-64", "ngram")
DEFAULT_VERIFIERS = ("token", "block", "greedy", "match")
REAL_VERIFIERS = ("token", "block", "greedy")
DETECT = 0.01

Say = Callable[[str], None]


def compare(
    models: Sequence[str | Model] = DEFAULT_MODELS,
    verifiers: Sequence[str] | None = None,
    *,
    gamma: int | None = None,
    blocks: int | None = None,
    calls: int = 0,
    eos: int | None = None,
    cost_ratio: float = 0.1,
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
    dtype: Literal["float32", "bfloat16"] | None = None,
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
        the first three, on a trace those of them without state.
    gamma
        Draft length, 1 to 64; a trace has its own.
    blocks
        Simulated blocks per verifier; by default as many as the promised power needs.
    calls, eos
        If positive, add the tokens out after 1..``calls`` calls; ``eos`` ends a generation there.
    cost_ratio
        Time of a draft token over time of a target call, for the latency model.
    draft_distance, temperature
        Knobs of markov-V; ``temperature`` of real models too.
    target, draft, prompts, tokens, lanes, top_k, top_p, device, dtype
        A pair of real models instead of ``models``, and how it decodes.
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
    real = RealModels(
        target=target, draft=draft, prompts=None if prompts is None else Path(prompts),
        tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, device=device,
        dtype=dtype, threads=threads,
    )  # fmt: skip
    shared = {"cost_ratio": cost_ratio, "alpha": alpha, "progress": progress}
    simulated = {
        "blocks": blocks, "calls": calls or None, "eos": eos, "draft_distance": draft_distance,
    }  # fmt: skip
    with called_from_python():
        return run_comparison(
            models, verifiers, real, gamma=gamma, lanes=lanes, detect=detect, seed=seed,
            trace=None if trace is None else Path(trace), simulated=simulated, shared=shared,
        )  # fmt: skip


def run_comparison(
    models: Sequence[str | Model],
    verifiers: Sequence[str] | None,
    real: RealModels,
    *,
    gamma: int | None,
    lanes: int | None,
    detect: float | None,
    seed: int | None,
    trace: Path | None,
    simulated: dict[str, Any],
    shared: dict[str, Any],
) -> CompareRun:
    """Compare in the way that the options ask for; those of another way are refused.

    ``simulated``: options of simulated models, None: not given; ``shared``: of all ways.
    """
    options = {
        name: value
        for name, value in vars(real).items()
        if name not in ("temperature", "threads")
    } | {"lanes": lanes}  # fmt: skip
    if trace is not None:
        own = options | simulated | {"temperature": real.temperature}
        refuse(own, "{option} is not for a trace, which has its own")
        return _of_trace(trace, verifiers, detect, shared | {"gamma": gamma, "seed": seed})
    if gamma is None:
        raise OptionError("{gamma} requires an argument: the draft length, such as {gamma} 8")
    shared = shared | {"gamma": gamma, "seed": seed or 0}
    named = len(models) == 1 and isinstance(models[0], str) and models[0] in REAL
    if real.target is None and real.draft is None and not named:
        refuse(
            options,
            "{option} is not for simulated ones: name {target} and {draft}, or {models} tiny-llama",
        )
        return _simulated(models, verifiers, real, detect, simulated, shared)
    refuse(simulated, "{option} is not for real models")
    if real.target is None and real.draft is None:
        real = replace(real, target=BUNDLED, draft=str(models[0]))
    return _of_pair(real, verifiers or REAL_VERIFIERS, lanes, detect, shared)


def _simulated(
    models: Sequence[str | Model],
    verifiers: Sequence[str] | None,
    real: RealModels,
    detect: float | None,
    simulated: dict[str, Any],
    shared: dict[str, Any],
) -> CompareRun:
    from simverify.comparing.comparison import compare as compare_models

    distance = simulated["draft_distance"]
    return compare_models(
        models,
        DEFAULT_VERIFIERS if verifiers is None else verifiers,
        blocks=simulated["blocks"],
        calls=simulated["calls"] or 0,
        eos=simulated["eos"],
        threads=real.threads,
        detect=DETECT if detect is None else detect,
        temperature=1.0 if real.temperature is None else real.temperature,
        distance=DEFAULT_DISTANCE if distance is None else distance,
        **shared,
    )


def _of_pair(
    real: RealModels,
    verifiers: Sequence[str],
    lanes: int | None,
    detect: float | None,
    shared: dict[str, Any],
) -> CompareRun:
    for name in ("target", "draft"):
        if getattr(real, name) is None:
            raise OptionError(f"{{{name}}} is missing: real models are a target and a draft")
    real.complete()
    from simverify.comparing.real.pair import compare_pair
    from simverify.comparing.real.pair_rows import DETECT as FOR_PAIRS
    from simverify.simulators.decoding.job import LANES

    texts = real.texts()
    return compare_pair(
        real.load(),
        texts,
        verifiers,
        tokens=real.tokens,
        detect=FOR_PAIRS if detect is None else detect,
        lanes=LANES if lanes is None else lanes,
        prompts_file=None if real.prompts is None else str(real.prompts),
        **shared,
    )


def _of_trace(
    folder: Path, verifiers: Sequence[str] | None, detect: float | None, shared: dict[str, Any]
) -> CompareRun:
    from simverify.comparing.real.pair_rows import DETECT as FOR_PAIRS
    from simverify.comparing.real.trace import compare_trace
    from simverify.simulators.decoding.replay_rules import STATELESS

    return compare_trace(
        folder,
        STATELESS if verifiers is None else verifiers,
        detect=FOR_PAIRS if detect is None else detect,
        **shared,
    )

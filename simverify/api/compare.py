"""``simverify.compare``: verifiers on simulated models, on a pair of real ones, on a trace."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simverify.api.real import BUNDLED, RealModels
from simverify.api.simulated import Rule, asked_trees, compare_simulated
from simverify.errors import OptionError, UsageError
from simverify.options.compare import (
    COMPARISONS,
    NO_GAMMA,
    CompareOptions,
    RealPairOptions,
    TracedOptions,
)
from simverify.options.modes import keywords
from simverify.options.option import Options
from simverify.results import CompareRun

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
    return run_comparison(options)


def run_comparison(options: Options) -> CompareRun:
    """Compare in the way of the options."""
    assert isinstance(options, CompareOptions | RealPairOptions | TracedOptions)
    shared: dict[str, Any] = {
        "cost_ratio": options.cost_ratio,
        "alpha": options.alpha,
        "seed": options.seed,
        "progress": options.progress,
    }
    if isinstance(options, TracedOptions):
        return _of_trace(options, shared)
    if options.gamma is None and options.tree is None:
        raise OptionError(NO_GAMMA)
    shared |= {"gamma": options.gamma, "seed": options.seed or 0}
    if isinstance(options, CompareOptions):
        return compare_simulated(options, shared)
    return _of_pair(options, shared)


def _named(verifiers: Sequence[Rule] | None) -> Sequence[str] | None:
    for verifier in verifiers or ():
        if not isinstance(verifier, str):
            raise UsageError(
                f"got {verifier!r}: on real models and traces name built-in verifiers, and audit "
                "your own with simverify.audit"
            )
    return verifiers  # type: ignore[return-value]  # names all


def _of_pair(options: RealPairOptions, shared: dict[str, Any]) -> CompareRun:
    real, verifiers = RealModels.of(options), _named(options.verifiers)
    if real.target is None and real.draft is None and options.models is not None:
        draft = None if real.from_texts else str(options.models[0])
        real = replace(real, target=BUNDLED, draft=draft)
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


def _of_trace(options: TracedOptions, shared: dict[str, Any]) -> CompareRun:
    from simverify.comparing.real.pair_rows import DETECT as FOR_PAIRS
    from simverify.comparing.real.trace import compare_trace
    from simverify.simulators.decoding.replay_rules import STATELESS

    return compare_trace(
        Path(options.trace or ""),
        STATELESS if options.verifiers is None else _named(options.verifiers) or (),
        gamma=options.gamma,
        detect=FOR_PAIRS if options.detect is None else options.detect,
        **shared,
    )

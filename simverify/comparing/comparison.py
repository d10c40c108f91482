"""A comparison of verifiers on simulated models: losslessness, acceptance, optimality, speed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING

from msgspec.structs import replace

from simverify import results as doc
from simverify.battery.battery import start_meta
from simverify.checks import check_comparison, check_ranges
from simverify.comparing.custom_rules import UserRule
from simverify.comparing.documents import ComparisonSettings, run_document
from simverify.comparing.model import ModelComparison, Rule
from simverify.comparing.trees import tree_rules
from simverify.errors import UsageError
from simverify.models import DEFAULT_DISTANCE, Model, get_model
from simverify.simulators.kernels import compiled_before
from simverify.simulators.latency import SINGLE_SEQUENCE, Load
from simverify.simulators.run import default_threads
from simverify.verifiers import get_verifier

if TYPE_CHECKING:
    from simverify.trees import Drafting

MAX_CALLS = 1000
MIN_BLOCKS, MAX_BLOCKS = 2, 10**10
MAX_BATCH_SIZE = 10**6


def compare(
    models: Sequence[str | Model],
    verifiers: Sequence[str] | None,
    *,
    gamma: int,
    drafting: "Drafting | None" = None,
    blocks: int | None = None,
    calls: int = 0,
    eos: int | None = None,
    cost_ratio: float = 0.1,
    load: Load = SINGLE_SEQUENCE,
    alpha: float = 1e-6,
    detect: float = 0.01,
    seed: int = 0,
    threads: int | None = None,
    distance: float = DEFAULT_DISTANCE,
    temperature: float = 1.0,
    own: Mapping[str, UserRule] | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Run every verifier on every model, and judge and measure each.

    Options are those of :func:`simverify.compare`. ``models``: names, files, or models themselves.
    ``verifiers``: names; None: all that are lossless on the trees of ``drafting``. ``drafting``:
    the trees that are drafted, for rules for trees; None: a single draft. ``blocks``: simulated
    blocks per verifier; None: as many as the promised power needs. ``load``: sequences at a time,
    and free rows of a call, for the latency model. ``distance``, ``temperature``: of markov-V.
    ``own``: the verifiers that are not built in, by name. ``progress`` receives a line when
    something begins that may take a while.

    Raises ``UsageError`` for unknown names, names given twice, bad files, values out of range.
    """
    chosen = ("block",) if verifiers is None else verifiers  # None: every rule
    for name, given in (("models", models), ("verifiers", chosen)):
        if isinstance(given, str):
            raise UsageError(f"{name} is the text {given!r}: expected a list, such as [{given!r}]")
        if not given:
            raise UsageError("nothing to compare: name at least one model and one verifier")
    check_comparison(
        verifiers or (), gamma=gamma, cost_ratio=cost_ratio, alpha=alpha, detect=detect, seed=seed
    )
    # Here too, because a run without markov-V would not look at them.
    if not 0 <= distance <= 1:
        raise UsageError(f"draft distance is {distance}: expected 0 to 1")
    if not 0 <= temperature < math.inf:
        raise UsageError(f"temperature is {temperature}: expected a finite number, 0 or more")
    threads = default_threads() if threads is None else threads
    settings = ComparisonSettings(
        gamma, blocks, calls, eos, cost_ratio, alpha, detect, seed, threads, load
    )
    _check_settings(settings)
    say = progress or (lambda _line: None)
    rules = resolve_rules(verifiers, drafting, own or {})
    loaded = [
        get_model(model, distance=distance, temperature=temperature, announce=say)
        if isinstance(model, str)
        else model
        for model in models
    ]
    _check_models(loaded, eos)
    if not compiled_before():
        say("compiling kernels (only once, some 15 seconds)")
    stamp = start_meta()
    settings = replace_fields(settings, alpha=alpha / (len(rules) * len(loaded)))
    rows, infos, timings = [], [], []
    for source, model in zip(models, loaded, strict=True):
        comparison = ModelComparison(model, drafting, rules, settings, say)
        infos.append(comparison.info(source if isinstance(source, str) else None))
        for name, rule in rules.items():
            row, speed = comparison.row(rule)
            rows.append(row)
            timings.append(doc.Timing(model=model.name, verifier=name, blocks_per_second=speed))
    return run_document(
        rows,
        infos,
        drafting=drafting,
        seed=seed,
        gamma=gamma,
        blocks=blocks,
        alpha=alpha,
        detect=detect,
        eos=eos,
        meta=replace(stamp(), threads=settings.threads, timings=tuple(timings)),
    )


def resolve_rules(
    names: Sequence[str] | None, drafting: "Drafting | None", own: Mapping[str, UserRule]
) -> Mapping[str, Rule]:
    """Return the rules that are called ``names``; None: those lossless on the trees."""
    if drafting is None:
        return {name: own.get(name) or get_verifier(name) for name in names or ()}
    return tree_rules(names, drafting, own)


def _check_settings(settings: ComparisonSettings) -> None:
    blocks = MIN_BLOCKS if settings.blocks is None else settings.blocks
    limits = (
        ("blocks", blocks, MIN_BLOCKS, MAX_BLOCKS),
        ("calls", settings.calls, 0, MAX_CALLS),
        ("threads", settings.threads, 1, 1024),
        ("batch size", settings.load.batch_size, 1, MAX_BATCH_SIZE),
    )
    check_ranges((name, n, low <= n <= high, f"{low} to {high}") for name, n, low, high in limits)
    free = settings.load.free_rows
    check_ranges([("free rows", free, free is None or 1 <= free < math.inf, "1 or more")])
    if settings.eos is not None and not settings.calls:
        raise UsageError(
            f"end-of-sequence token {settings.eos} without calls: it ends the generations of "
            "the tokens after calls, so ask for calls, 1 or more, too"
        )


def _check_models(models: Sequence[Model], eos: int | None) -> None:
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two models are called {name!r}: give them different names")
    for model in models:
        if eos is not None and not 0 <= eos < model.vocab_size:
            raise UsageError(
                f"end-of-sequence token {eos} is not in the vocabulary of {model.name}, "
                f"0 to {model.vocab_size - 1}"
            )

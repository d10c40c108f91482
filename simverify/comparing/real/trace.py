"""A comparison on a trace: every rule on the same recorded blocks, without the models."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from simverify import results as doc
from simverify.battery.judgement import stamped
from simverify.checks import comparison_iv
from simverify.comparing.real.pair_rows import DETECT, POWER, expected_accepted, pair_row
from simverify.errors import UsageError
from simverify.models.real.trace import Manifest, Trace, open_trace
from simverify.simulators.decoding.arrays import from_arrays
from simverify.simulators.decoding.emitted import Decoded
from simverify.simulators.decoding.replay_rules import STATELESS, finish, replays
from simverify.simulators.decoding.replayed import blocks_of
from simverify.verifiers import Verifier, get_verifier


def compare_trace(
    folder: Path,
    verifiers: Sequence[str] = STATELESS,
    *,
    gamma: int | None = None,
    cost_ratio: float = 0.1,
    alpha: float = 1e-6,
    detect: float = DETECT,
    seed: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Call every verifier on every block of the trace in ``folder``, and judge what it emits.

    Parameters
    ----------
    folder
        As :func:`~simverify.capture.capture` wrote it.
    verifiers
        Of token, block and match.
    gamma
        The trace's own, or None.
    cost_ratio, alpha, detect
        As in :func:`simverify.compare`.
    seed
        Of the verifiers' coins; that of the recording if None. Statistics have theirs.
    progress
        Receives lines.

    Raises
    ------
    UsageError
        If the trace is damaged, of another gamma, or too short, or a verifier carries state.
    """
    trace = open_trace(folder)
    made = trace.manifest
    if gamma is not None and gamma != made.gamma:
        raise UsageError(f"gamma is {gamma}: {folder} was drafted with gamma {made.gamma}")
    rules = [_rule_iv(get_verifier(name)) for name in verifiers]
    seed = made.seed if seed is None else seed
    comparison_iv(
        verifiers, gamma=made.gamma, cost_ratio=cost_ratio, alpha=alpha, detect=detect, seed=seed
    )
    say, stamp = progress or (lambda _: None), stamped()
    say(f"{made.name}: {made.blocks:,} recorded blocks")
    if made.kind == "rows":
        found, speeds = _replayed(trace, rules, seed)
    else:
        if seed != made.seed:
            raise UsageError(f"seed is {seed}: the statistics in {folder} were made with seed "
                             f"{made.seed}")  # fmt: skip
        found, speeds = _stored(trace, rules), {}
    rows = [
        pair_row(
            made.name, made.vocab_size, rule, found[rule.name], share=alpha / len(rules),
            detect=detect, cost_ratio=cost_ratio, baseline=found.get("token"),
        )
        for rule in rules
    ]  # fmt: skip
    coupling = expected_accepted(found[rules[0].name], "greedy")
    info = doc.ModelInfo(
        name=made.name, given=None, vocab_size=made.vocab_size,
        bounds=doc.Bounds(coupling=coupling, blocks_of="trace"), file_sha256=None,
        draft_distance=None, temperature=None, corpus_sha256=None,
        target_perplexity=None, draft_perplexity=None, drafter=made.decoding.drafter,
    )  # fmt: skip
    timings = [
        doc.Timing(model=made.name, verifier=r.name, blocks_per_second=speeds.get(r.name, 0.0))
        for r in rules
    ]
    return doc.CompareRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=seed,
        gamma=made.gamma,
        blocks=None,
        alpha=alpha,
        detect=detect,
        power=POWER,
        eos=None,
        verdict=doc.overall([row.verdict for row in rows]),
        results=tuple(rows),
        models=(info,),
        decoding=msgspec.structs.replace(
            made.decoding, trace=str(folder), trace_sha256=made.sha256
        ),
        meta=msgspec.structs.replace(stamp(), timings=tuple(timings)),
    )


def _replayed(
    trace: Trace, rules: Sequence[Verifier], seed: int
) -> tuple[dict[str, Decoded], dict[str, float]]:
    """What each rule emits, and its calls a second."""
    made = trace.manifest.decoding
    runs = replays(
        rules, gamma=trace.manifest.gamma, lanes=made.lanes, tokens=made.tokens, seed=seed
    )
    for block in blocks_of(trace):
        for run in runs.values():
            run.replayed(block)
    found = finish(runs)
    return found, {name: run.replayed.calls / run.replayed.seconds for name, run in runs.items()}


def _stored(trace: Trace, rules: Sequence[Verifier]) -> dict[str, Decoded]:
    made: Manifest = trace.manifest
    missing = [rule.name for rule in rules if rule.name not in made.rules]
    if missing:
        raise UsageError(f"{trace.folder} holds statistics of {', '.join(made.rules)}, not of "
                         f"{missing[0]}")  # fmt: skip
    arrays = trace.statistics()
    found = {}
    for rule in rules:
        own = {
            name.removeprefix(f"{rule.name}."): array
            for name, array in arrays.items()
            if name.startswith(f"{rule.name}.")
        }
        try:
            found[rule.name] = from_arrays(own)
        except ValueError as error:
            raise UsageError(f"trace: the statistics of {rule.name}: {error}") from None
    return found


def _rule_iv(rule: Verifier) -> Verifier:
    if rule.name not in STATELESS:
        why = (
            "carries state along tokens of its own, which a trace of other tokens has no rows for"
            if rule.contract == "step"
            else "has no expected acceptance on real models"
        )
        raise UsageError(f"verifier {rule.name!r} {why}: expected some of {', '.join(STATELESS)}")
    return rule

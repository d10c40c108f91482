"""``simverify plan`` on this machine: the battery's formulas, and how fast its samples are made."""

__simverify_role__ = "shared"


import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from simverify import results as doc
from simverify import stats
from simverify.battery.battery import start_meta
from simverify.checks import MAX_GAMMA, MAX_SECONDS, MIN_ALPHA, check_ranges
from simverify.errors import UsageError
from simverify.models.markov import MAX_STATES, MAX_VOCAB, markov
from simverify.simulators import run as compiled
from simverify.simulators.kernels import compiled_before

DEFAULT_DEVIATION = 0.01
MIN_DEVIATION = 1e-5
"""Least deviation to plan for, with 10^11 blocks: far beyond, exact binomial tails run out of
digits."""

MAX_SAMPLES = 10**15

TIMED_VERIFIER = "block"  # the rule that is timed

MAX_TIMED_VOCAB = 1 << 16
"""Largest vocabulary that is timed; the rows of a larger one would take seconds to make."""

PILOT_BLOCKS = 1 << 16  # blocks behind ``tokens_per_block``, which is the same on every machine

TIMED_SECONDS = 0.5

PLAN_SEED = 0

META_FIELDS = ("version", "started", "seconds", "machine", "python")  # fields that all runs have


@dataclass(frozen=True)
class KernelSpeed:
    """How fast the kernel of ``TIMED_VERIFIER`` runs on ``model``, with its tokens counted."""

    model: str
    threads: int
    blocks_per_second: float
    tokens_per_block: float


def plan(
    *,
    alpha: float = 1e-6,
    power: float = 0.9,
    deviation: float | None = None,
    vocab: int = 64,
    gamma: int = 8,
    seconds: float | None = None,
    samples: int | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.PlanRun:
    """Say how many tokens each test needs to find a deviation, or what a budget finds in each.

    Times are those of the compiled block verifier on ``markov-V``. It runs here for a moment, and
    everything is counted that a comparison counts.

    Parameters
    ----------
    alpha, power
        False-alarm rate of the whole run, and the power promised.
    deviation
        Mean one-token TV distance (for E[tau] a shift of one Pr(tau >= l)); .01 if there is
        no budget. At most one of ``deviation``, ``seconds`` and ``samples`` may be given.
    vocab, gamma
        V, 2 to 10 million, and the draft length, 1 to 64.
    seconds, samples
        A budget: time on this machine, or emitted tokens.
    threads
        Threads; all processors by default. They change times alone.
    progress
        Receives a line when something begins that may take a while.

    Raises
    ------
    UsageError
        If a value is out of range or two of the three are given.
    """
    below = "or more, below 1"
    rules: list[tuple[str, float | None, bool, str]] = [
        ("alpha", alpha, MIN_ALPHA <= alpha < 1, f"{MIN_ALPHA:g} {below}"),
        ("power", power, 0.01 <= power <= 0.9999, "0.01 to 0.9999"),
        ("vocab", vocab, 2 <= vocab <= MAX_VOCAB, f"2 to {MAX_VOCAB}"),
        ("gamma", gamma, 1 <= gamma <= MAX_GAMMA, f"1 to {MAX_GAMMA}"),
    ]
    if deviation is not None:
        fits = MIN_DEVIATION <= deviation < 1
        rules.append(("deviation", deviation, fits, f"{MIN_DEVIATION:g} {below}"))
    if seconds is not None:
        fits = 0 < seconds <= MAX_SECONDS
        rules.append(("seconds", seconds, fits, f"above 0, {MAX_SECONDS:g} at most"))
    if samples is not None:
        rules.append(("samples", samples, 1 <= samples <= MAX_SAMPLES, f"1 to {MAX_SAMPLES}"))
    if threads is not None:
        rules.append(("threads", threads, 1 <= threads <= 1024, "1 to 1024"))
    check_ranges(rules)
    question = _check_goal(deviation, seconds, samples)
    say = progress or (lambda _line: None)
    stamp = start_meta()
    speed = measure_speed(
        vocab, gamma, compiled.default_threads() if threads is None else threads, say
    )
    blocks = None
    if seconds is not None:
        blocks = max(math.floor(seconds * speed.blocks_per_second), 1)
        samples = max(math.floor(blocks * speed.tokens_per_block), 1)
    elif samples is not None:
        blocks = max(math.floor(samples / speed.tokens_per_block), 1)
    contexts = 1 + gamma * min(vocab, MAX_STATES)
    wanted = DEFAULT_DEVIATION if deviation is None and samples is None else deviation
    tables: dict[str, Any] = {
        "alpha": alpha,
        "power": power,
        "vocab_size": vocab,
        "gamma": gamma,
        "contexts": contexts,
    }
    if samples is None or blocks is None:
        assert wanted is not None
        plans = list(stats.plan_table(deviation=wanted, **tables).rows)
    else:
        of_tokens, of_blocks = (
            stats.budget_table(samples=n, **tables).rows for n in (samples, blocks)
        )
        pairs = zip(of_tokens, of_blocks, strict=True)
        plans = [a if a.unit == "tokens" else b for a, b in pairs]
    rows = tuple(
        doc.PlanLine(
            test=row.test,
            level=row.level,
            samples=_finite_or_none(row.samples),
            unit="tokens" if row.unit == "tokens" else "blocks",
            deviation=_finite_or_none(row.deviation),
            measure=row.measure,
        )
        for row in plans
    )

    def seconds_of(row: doc.PlanLine) -> float | None:
        if row.samples is None:
            return None
        each = speed.tokens_per_block if row.unit == "tokens" else 1.0
        return row.samples / each / speed.blocks_per_second

    meta = stamp()
    return doc.PlanRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=PLAN_SEED,
        alpha=alpha,
        power=power,
        vocab_size=vocab,
        gamma=gamma,
        contexts=contexts,
        asked=question,
        deviation=wanted,
        samples=samples,
        seconds=seconds,
        tokens_per_block=speed.tokens_per_block,
        rows=rows,
        meta=doc.PlanMeta(
            **{name: getattr(meta, name) for name in META_FIELDS},
            threads=speed.threads,
            timings=(doc.Timing(speed.model, TIMED_VERIFIER, speed.blocks_per_second),),
            row_seconds=tuple(map(seconds_of, rows)),
        ),
    )


def measure_speed(vocab: int, gamma: int, threads: int, say: Callable[[str], None]) -> KernelSpeed:
    """Time the kernel for a moment, counting what a comparison would."""
    model = markov(min(vocab, MAX_TIMED_VOCAB))
    if not compiled_before():
        say("compiling kernels (only once, some 15 seconds)")
    say(f"timing {TIMED_VERIFIER} on {model.name}")
    tables = compiled.markov_tables(model)
    rows, positions = model.states + 1, gamma + 1
    by_context = rows * model.vocab_size <= compiled.MAX_CONTEXT_CELLS
    cells = (
        model.vocab_size
        if by_context
        else compiled.fine_cell_count(model.vocab_size, rows, positions)
    )

    def run(blocks: int) -> compiled.Counts:
        return compiled.simulate(
            tables,
            TIMED_VERIFIER,
            gamma,
            blocks,
            seed=PLAN_SEED,
            threads=threads,
            transition_shape=(positions, rows, cells),
            cells=compiled.cell_of_token(model.vocab_size, cells),
            pit_positions=0 if by_context else positions,
        )

    pilot = run(PILOT_BLOCKS)
    # Twice as many each time, until a run is long enough for the clock and the threads' start.
    blocks = PILOT_BLOCKS
    while True:
        clock = time.perf_counter()
        run(blocks)
        took = time.perf_counter() - clock
        if took >= TIMED_SECONDS / 2:
            break
        blocks *= 2
    accepted = float(pilot.tail_counts.sum()) / pilot.trials
    return KernelSpeed(model.name, threads, blocks / took, accepted + 1.0)


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _check_goal(
    deviation: float | None, seconds: float | None, samples: int | None
) -> Literal["deviation", "samples", "seconds"]:
    given = {"deviation": deviation, "seconds": seconds, "samples": samples}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise UsageError(
            f"{' and '.join(named)} are given: expected one, a deviation to find or a budget"
        )
    if seconds is not None:
        return "seconds"
    return "deviation" if samples is None else "samples"

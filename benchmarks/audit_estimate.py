"""On paper: a full sampled audit of an engine's verifier at V = 151,936, on a hundred workers.

    python benchmarks/audit_estimate.py                # half a minute; needs torch, transformers
    python benchmarks/audit_estimate.py --blocks 3     # shows that it runs

The verifier is called on random rows as an audit on real rows calls it, by the audit's own parts,
and timed beside its bare calls: processor time, so that other work on the machine matters less.
What it comes to is put together with the tokens that the tests of `simverify plan` need. Making the
rows, which is the engine's model's part, is not in it.
"""

import argparse
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
from growing.recorded import APART, LANES, SEED
from rich.console import Console
from rich.table import Table

from simverify import stats
from simverify.auditing.real_models import BlockCaller, CallRecorder
from simverify.auditing.subject import load_subject
from simverify.battery.battery import judge_output, output_detectable, output_tokens
from simverify.models.transformer import Sampling
from simverify.simulators.decoding.loop import Block

ALPHA, POWER, DETECT = 1e-6, 0.9, 0.01
DISTINCT = 6
"""Blocks whose logits are made beforehand; drafts and coins are new in each call."""

Draw = Callable[[np.random.Generator], Block]


@dataclass(frozen=True)
class Measured:
    """Processor seconds a block, and what a worker holds and sends."""

    rows: float
    bare: float
    harness: float
    tokens: float
    mebibytes: float
    sent: float
    merged: float
    judged: float

    @property
    def block(self) -> float:
        """Seconds a block, all in all."""
        return self.rows + self.bare + self.harness


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", default="transformers", metavar="SPEC")
    parser.add_argument("--vocab", type=int, default=151_936)
    parser.add_argument("--gamma", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=200, help="blocks that are timed")
    parser.add_argument("--workers", type=int, default=100)
    given = parser.parse_args()
    found = measure(given.engine, given.vocab, given.gamma, given.blocks)
    print(
        f"{given.engine} at V = {given.vocab:,}, gamma = {given.gamma}, {given.blocks} blocks of "
        f"{found.tokens:.2f} tokens; processor milliseconds a block: {1e3 * found.bare:.1f} its "
        f"own calls ({1 / found.bare:.0f} a second), {1e3 * found.rows:.1f} rows from logits, "
        f"{1e3 * found.harness:.1f} everything else of an audit\n"
        f"a worker: {found.mebibytes:.0f} MiB at most; its sums {found.sent:.1f} MiB, however many "
        f"tokens; to add them {1e3 * found.merged:.1f} ms a worker, to judge all "
        f"{found.judged:.1f} s, once\n"
    )
    show(found, given.vocab, given.gamma, given.workers)
    say(found, given.workers)


def measure(spec: str, vocab: int, gamma: int, blocks: int) -> Measured:
    """Call the verifier on ``blocks`` blocks, barely and as an audit does."""
    rule = load_subject(spec).generator_rule()
    rng = np.random.default_rng(SEED)
    logits = list(islice(_logits(vocab, gamma, rng), min(DISTINCT, blocks)))
    clock, bare, rows, whole = time.process_time, 0.0, 0.0, 0.0
    caller = BlockCaller(rule, vocab)
    kept = CallRecorder(gamma=gamma, lanes=LANES, seed=SEED, drafted=True)
    # The first of each compiles, or loads what it needs.
    for number, (target, draft) in enumerate(islice(cycle(logits), blocks + 1)):
        begun = clock()
        p, q = Sampling().rows(target), Sampling().rows(draft)
        made = clock()
        drafts = np.array([int(rng.choice(vocab, p=row)) for row in q[:-1]])
        own = clock()
        rule(p.copy(), q[:-1].copy(), drafts.copy(), rng)
        called = clock()
        block = Block(
            lane=number % LANES, position=0, first=False, p=p, q=q, drafts=tuple(drafts.tolist()),
            tau=0, emitted=(),
        )  # fmt: skip
        judged = _judged(block, caller.judge(0, p, q[:-1], drafts, rng))
        kept(judged)
        ended = clock()
        if number:
            rows, bare, whole = rows + made - begun, bare + called - own, whole + ended - called
    begun = clock()
    sums = kept.tokens.features
    whole += clock() - begun
    begun = clock()
    both = sums + sums
    merged = clock() - begun
    begun = clock()
    judge_output(both, ALPHA)
    return Measured(
        rows=rows / blocks, bare=bare / blocks, harness=(whole - bare) / blocks,
        tokens=sums.n / kept.calls, sent=len(pickle.dumps(sums)) / 2**20, merged=merged,
        judged=clock() - begun,
        mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / (2**20 if sys.platform == "darwin" else 2**10),
    )  # fmt: skip


def _logits(vocab: int, gamma: int, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    while True:
        target = rng.standard_normal((gamma + 1, vocab), np.float32)
        yield target, target + np.float32(APART) * rng.standard_normal(target.shape, np.float32)


def _judged(block: Block, emitted: list[int]) -> Block:
    return replace(block, tau=len(emitted) - 1, emitted=tuple(emitted))


def show(found: Measured, vocab: int, gamma: int, workers: int) -> None:
    """Print what each line of the plan takes."""
    table = Table(f"to find {DETECT} (alpha {ALPHA:g}, power {POWER})", box=None, pad_edge=False)
    for heading in ("samples", "", "blocks", "CPU s", f"s on {workers}"):
        table.add_column(heading, justify="right")
    for name, samples, unit in plan(vocab, gamma):
        blocks = samples if unit == "blocks" else samples / found.tokens
        seconds = blocks * found.block
        shared = seconds / workers + workers * found.merged + found.judged
        table.add_row(
            name, f"{samples:,.0f}", unit, f"{blocks:,.0f}", f"{seconds:,.0f}", f"{shared:,.0f}"
        )
    Console(width=100, highlight=False, markup=False).print(table)


def plan(vocab: int, gamma: int) -> list[tuple[str, float, str]]:
    """Samples and their unit, by test: those of `simverify plan` that real rows have.

    Contexts of real models do not repeat, so that no transitions are counted. What an audit itself
    waits for, PITs in three orders, stands first.
    """
    rows = stats.plan_table(
        deviation=DETECT, alpha=ALPHA, power=POWER, vocab_size=vocab, gamma=gamma
    ).rows
    lines = [
        (row.test, float(row.samples), row.unit)
        for row in rows
        if "repeated contexts" not in row.measure
    ]
    return [("what the audit waits for", float(output_tokens(DETECT, ALPHA)), "tokens"), *lines]


def say(found: Measured, workers: int) -> None:
    """Print what workers can share today, and what they cannot."""
    tokens = output_tokens(DETECT, ALPHA)
    each = output_detectable(tokens // workers, ALPHA / workers)
    again = output_tokens(DETECT, ALPHA / workers)
    print(
        f"\nAn audit runs in one process today: {tokens / found.tokens * found.block:,.0f} s for "
        f"what it waits for.\n"
        f"Calls, rows and sums could be shared, as sums of disjoint blocks add up: no\n"
        f"command does it.\n"
        f"{workers} audits on traces of their own, with other seeds, each at alpha / {workers}:\n"
        f"- a right verifier fails in one or more of them with probability alpha at most;\n"
        f"- with its share of the tokens each finds a deviation of {each:.2g};\n"
        f"- to find {DETECT} each needs {again:,} tokens, {again / tokens:.2f} times those of\n"
        f"  one audit, so that no time is saved."
    )


if __name__ == "__main__":
    main()

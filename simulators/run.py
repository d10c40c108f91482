"""Running the compiled loops over ranges of trials, on threads, into mergeable counts."""

import os
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simverify.arrays import Ints
from simverify.errors import UsageError
from simverify.simulators.kernels.generation import generate
from simverify.verifiers import get_verifier
from simverify.verifiers.base import part

SHARD = 1 << 14
"""Trials a thread takes at a time; a multiple of the kernels' tile."""

SMALL_SHARD = 1 << 10
"""The same of several calls each, which take long: one thread would wait for the other's last."""

PIT_BINS = 1 << 12

NO_TRAIL = np.empty((0, 0, 2), np.int64)
"""For a run whose tokens are counted and not kept."""


@dataclass(frozen=True, eq=False)
class Counts:
    """What :func:`simulate` counted over ``trials`` generations; counts of shards add up.

    ``accepted``: int64 (gamma+1,), tau of the first call. ``lengths``: int64 (2, calls), sum
    and sum of squares of the tokens out after each call. ``transitions``: int64 (positions,
    S+1, cells) emitted tokens by position, row and cell of tokens. ``pits``: int64 (2,
    positions, bins), randomised PITs in q/p and in token order, and ``unsupported`` the
    tokens of probability 0 among them. What was not asked for is empty.
    """

    trials: int
    accepted: Ints
    lengths: Ints
    transitions: Ints
    pits: Ints
    unsupported: int

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.trials + other.trials,
            self.accepted + other.accepted,
            self.lengths + other.lengths,
            self.transitions + other.transitions,
            self.pits + other.pits,
            self.unsupported + other.unsupported,
        )

    @property
    def tail_counts(self) -> Ints:
        """Number of first calls with tau >= l, l = 1..gamma."""
        tails: Ints = np.cumsum(self.accepted[::-1])[::-1][1:]
        return tails


def simulate(
    tables: Any,
    rule: str,
    gamma: int,
    trials: int,
    *,
    seed: int,
    threads: int,
    calls: int = 1,
    eos: int | None = None,
    transition_shape: tuple[int, int, int] = (0, 1, 1),
    cells: Ints | None = None,
    pit_positions: int = 0,
    first_trial: int = 0,
) -> Counts:
    """Run ``trials`` generations of at most ``calls`` calls under the rule named ``rule``.

    ``transition_shape`` (positions, rows, cells) or ``pit_positions`` ask for the tokens
    emitted at the first positions; with several calls a generation then ends when they are
    full. ``cells`` int64 (V,) is the cell that counts each token, by default its own.
    Trials are numbered from ``first_trial``. Neither ``threads`` nor their timing changes the
    result.
    """
    number = rule_number(rule)

    def empty() -> Counts:
        return Counts(
            0,
            np.zeros(gamma + 1, np.int64),
            np.zeros((2, calls), np.int64),
            np.zeros(transition_shape, np.int64),
            np.zeros((2, pit_positions, PIT_BINS), np.int64),
            0,
        )

    def work(take: Callable[[], tuple[int, int] | None]) -> Counts:
        counts = empty()
        done = 0
        unsupported = np.zeros(1, np.int64)
        stop = -1 if eos is None else eos
        places = np.arange(transition_shape[2]) if cells is None else cells
        while (shard := take()) is not None:
            generate(
                tables, number, gamma, np.uint64(seed), *shard, calls, stop,
                places, counts.accepted, counts.lengths, counts.transitions, counts.pits,
                unsupported, NO_TRAIL,
            )  # fmt: skip
            done += shard[1] - shard[0]
        return replace(counts, trials=done, unsupported=int(unsupported[0]))

    shard = SHARD if calls == 1 else SMALL_SHARD
    return sum(on_threads(work, first_trial, trials, threads, shard), empty())


def rule_number(name: str) -> int:
    """Return the number by which the decoding loop knows a rule.

    Raises ``UsageError`` for one that it does not know.
    """
    kernel = part(get_verifier(name).kernel)
    if kernel is None:
        raise UsageError(f"{name} has no kernel: give compare its function, which it then calls")
    if not isinstance(kernel, int):
        raise UsageError(
            f"the kernel of {name} judges single calls: several calls, or a rule with state, need "
            "a rule of the decoding loop"
        )
    return kernel


def default_threads() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_threads(
    work: Callable[[Callable[[], tuple[int, int] | None]], Any],
    first: int,
    trials: int,
    threads: int,
    shard: int = SHARD,
) -> list[Any]:
    """Run ``work`` on each thread; it takes shards of trials until none is left."""
    shards: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    for begin in range(0, trials, shard):
        shards.put((first + begin, first + min(begin + shard, trials)))

    def take() -> tuple[int, int] | None:
        try:
            return shards.get_nowait()
        except queue.Empty:
            return None

    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(work, take) for _ in range(threads)]
        return [future.result() for future in futures]
    finally:
        # A broken run, Ctrl-C included, empties the queue so that the threads end soon; it
        # does not wait for them, since one may be compiling.
        while take() is not None:
            pass
        pool.shutdown(wait=False)

"""Running the compiled loop over draft trees: ranges of trials, on threads, into counts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import njit

from simverify.arrays import Ints
from simverify.errors import UsageError
from simverify.simulators import kernels
from simverify.simulators.kernels.tables.markov import MarkovTables
from simverify.simulators.kernels.trees.judging import Family, Scratch
from simverify.simulators.kernels.trees.tree_generation import generate_trees
from simverify.simulators.kernels.trees.ways import count_ways
from simverify.simulators.run import NO_TRAIL, PIT_BINS, Counts, on_threads
from simverify.simulators.streamed import Sample, first_tokens
from simverify.simulators.trees.drafts import drafts_of
from simverify.trees import Drafting
from simverify.verifiers.base import Verifier, part
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier
from simverify.verifiers.trees.base import most_children

_CHUNK = 1 << 13
"""Trials whose tokens are kept at a time."""

Rule = str | TreeVerifier | Verifier
"""A rule for draft trees or its name; or one for a single draft whose kernel is a ``Family``, on
chains."""


def compiled_rules(drafting: Drafting) -> tuple[str, ...]:
    """Return the rules that have a kernel, fit the shape and are lossless on the scheme."""
    return tuple(
        name
        for name, verifier in TREE_VERIFIERS.items()
        if verifier.kernel is not None
        and drafting.scheme.name in verifier.schemes
        and verifier.fits(drafting.shape)
    )


def simulate_trees(
    tables: Any,
    rule: Rule,
    drafting: Drafting,
    trials: int,
    *,
    seed: int,
    threads: int,
    transition_shape: tuple[int, int, int] = (0, 1, 1),
    cells: Ints | None = None,
    pit_positions: int = 0,
    first_trial: int = 0,
) -> Counts:
    """Draft and judge ``trials`` trees from the model's start by ``rule``.

    As :func:`~simverify.simulators.run.simulate` with one call: ``transition_shape`` (positions,
    rows, cells), ``cells`` int64 (V,), ``pit_positions`` and ``first_trial`` mean the same, and
    so does what is counted, tau going up to the depth of the tree. Neither ``threads`` nor their
    timing changes the result.

    Raises ``UsageError`` for a rule that is not one of :func:`compiled_rules`, or a model whose
    rows do not follow from its last token.
    """
    run = _prepared(_Identity(tables), _family(rule, drafting), drafting)
    places = np.arange(transition_shape[2]) if cells is None else cells

    def empty() -> Counts:
        return Counts(
            0,
            np.zeros(drafting.shape.depth + 1, np.int64),
            np.zeros((2, 1), np.int64),
            np.zeros(transition_shape, np.int64),
            np.zeros((2, pit_positions, PIT_BINS), np.int64),
            0,
        )

    def work(take: Callable[[], tuple[int, int] | None]) -> Counts:
        counts = empty()
        done = 0
        unsupported = np.zeros(1, np.int64)
        scratch = run.scratch()
        while (shard := take()) is not None:
            run.loop(
                tables, run.family, run.drafts, scratch, np.uint64(seed), *shard, places,
                counts.accepted, counts.lengths, counts.transitions, counts.pits, unsupported,
                NO_TRAIL,
            )  # fmt: skip
            done += shard[1] - shard[0]
        return replace(counts, trials=done, unsupported=int(unsupported[0]))

    return sum(on_threads(work, first_trial, trials, threads), empty())


def sample_trees(
    tables: Any, rule: Rule, drafting: Drafting, n: int, *, seed: int, positions: int | None = None
) -> Sample:
    """Return the first ``n`` tokens at the first ``positions`` of the trials 0, 1, ...

    They are those that :func:`simulate_trees` counts; by default at all positions, the depth of
    the tree and one.
    """
    run = _prepared(_Identity(tables), _family(rule, drafting), drafting)
    scratch = run.scratch()
    depth = drafting.shape.depth
    return first_tokens(
        lambda first, end, trail: _emit(tables, run, scratch, seed, first, end, trail),
        n, seed=seed, each=1, positions=depth + 1 if positions is None else positions,
    )  # fmt: skip


def count_nodes(tables: Any, rule: Rule, drafting: Drafting, trials: int, *, seed: int) -> Ints:
    """Return how many of the trials 0, 1, ... kept the way through each node, int64 (n,).

    They are those that :func:`simulate_trees` counts. Of equal siblings the first is meant whose
    descendants hold the other accepted tokens.
    """
    run = _prepared(_Identity(tables), _family(rule, drafting), drafting)
    scratch, shape = run.scratch(), drafting.shape
    kept = np.zeros(len(shape), np.int64)
    for first in range(0, trials, _CHUNK):
        end = min(first + _CHUNK, trials)
        trail = np.full((end - first, shape.depth + 1, 2), -1, np.int64)
        _emit(tables, run, scratch, seed, first, end, trail)
        most = most_children(shape)
        count_ways(tables, run.drafts, np.uint64(seed), first, trail, most, kept)
    return kept


def _emit(
    tables: Any, run: "_Prepared", scratch: Scratch, seed: int, first: int, end: int, trail: Ints
) -> None:
    """Run trials ``first`` to ``end``-1 and write what they emit to ``trail``, nothing else."""
    run.loop(
        tables, run.family, run.drafts, scratch, np.uint64(seed), first, end,
        np.zeros(0, np.int64), np.zeros(run.depth + 1, np.int64), np.zeros((2, 1), np.int64),
        np.zeros((0, 1, 1), np.int64), np.zeros((2, 0, PIT_BINS), np.int64),
        np.zeros(1, np.int64), trail,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A rule's own tables and the drafting, as the kernels read them, and the room they need."""

    family: Any
    drafts: Any
    depth: int
    places: int
    rows: tuple[int, int]

    @property
    def loop(self) -> Any:
        """The compiled loop."""
        ours = type(self.family).__module__.startswith(f"{kernels.__name__}.")
        return generate_trees if ours else _uncached()

    def scratch(self) -> Scratch:
        return Scratch(
            np.empty((3, self.places), np.int64), np.empty((4, self.places)), np.empty(self.rows)
        )


class _Identity:
    """Tables by what they are, not what is in them, so that a cache can tell them apart."""

    def __init__(self, tables: Any) -> None:
        self.tables = tables

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.tables is self.tables

    def __hash__(self) -> int:
        return id(self.tables)


# A comparison takes one rule after the other, and each in several runs. Of a large vocabulary the
# tables of a rule are hundreds of megabytes, so no more of them are kept.
@lru_cache(maxsize=2)
def _prepared(given: _Identity, family: Family, drafting: Drafting) -> _Prepared:
    tables = given.tables
    if not isinstance(tables, MarkovTables):
        raise UsageError(
            "draft trees are simulated on Markov models: got one whose rows do not follow from "
            "the last token; use markov-V, toy, compact or a file of rows"
        )
    shape = drafting.shape
    return _Prepared(
        family.build(tables, drafting),
        drafts_of(tables, drafting),
        shape.depth,
        max(shape.depth + 2, most_children(shape)),
        (family.rows(drafting), tables.draft.shape[1]),
    )


def _family(rule: Rule, drafting: Drafting) -> Family:
    if not isinstance(rule, Verifier):
        name = rule if isinstance(rule, str) else rule.name
        if name not in (known := compiled_rules(drafting)):
            raise UsageError(
                f"no kernel of {name!r} for siblings drafted by {drafting.scheme.name} on "
                f"{drafting.shape.words()}: choose from {', '.join(known)}"
            )
        rule = TREE_VERIFIERS[name]
    family: Family = part(rule.kernel)
    return family


@cache
def _uncached() -> Any:
    """Return the loop for kernels of other packages.

    Numba's cache would run them as they were before an edit, and no process that cannot import
    them could read what it holds of ours.
    """
    return njit(nogil=True, error_model="numpy")(generate_trees.py_func)

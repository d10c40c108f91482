"""The first tokens that a run emits, each with its rows: what no count by context keeps.

Every draw has an address, so the same trials are run again and their tokens written out; the
run itself keeps counts alone. They are the first n in the order of trials and positions, n
fixed beforehand and the last trial cut where they are full: then each token follows its own
target row, given all before it, whatever the rule accepted.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.models.base import MarkovModel, Model
from simverify.simulators.features import Features, features
from simverify.simulators.kernels.generation import generate
from simverify.simulators.kernels.philox import PIT, fill_tile
from simverify.simulators.kernels.rows import features as kernel
from simverify.simulators.kernels.tables.ngram import fill_rows
from simverify.simulators.run import PIT_BINS, rule_number
from simverify.simulators.tables import stacked

_CHUNK = 1 << 13
"""Trials that are run at a time."""

_ENTRIES = 1 << 20
"""Entries of target rows that a thread lays out at a time, 8 MB; draft rows are as many."""

_LAYERS = 4
"""Most threads that lay out rows, however many add up their features."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Emitted tokens in the order of trials and positions, arrays (n,).

    ``states``: int64, what stands for each token's context; ``tokens`` and ``positions``
    int64; ``uniforms``: float64 in [0, 1), what randomises the PITs of the run's own counts.
    """

    states: Ints
    tokens: Ints
    positions: Ints
    uniforms: Floats


def sample(
    tables: Any, rule: str, gamma: int, n: int, *, seed: int, calls: int, positions: int
) -> Sample:  # fmt: skip
    """Return the first ``n`` tokens at the first ``positions`` of the trials 0, 1, ...

    A trial makes at most ``calls`` calls, and is over once its positions are full.
    """
    number = rule_number(rule)
    nothing = np.zeros((0, 1, 1), np.int64), np.zeros((2, 0, PIT_BINS), np.int64)

    def trials(first: int, end: int, trail: Ints) -> None:
        generate(
            tables, number, gamma, np.uint64(seed), first, end, calls, -1,
            np.zeros(0, np.int64), np.zeros(gamma + 1, np.int64), np.zeros((2, calls), np.int64),
            *nothing, np.zeros(1, np.int64), trail,
        )  # fmt: skip

    # The fewest tokens of a trial.
    each = positions if calls >= positions else 1
    return first_tokens(trials, n, seed=seed, each=each, positions=positions)


def first_tokens(
    run: Callable[[int, int, Ints], None], n: int, *, seed: int, each: int, positions: int
) -> Sample:
    """Return the first ``n`` tokens at the first ``positions`` of the trials 0, 1, ...

    ``run(first, end, trail)`` runs trials ``first`` to ``end``-1, which emit ``each`` tokens or
    more, and writes int64 (trials, positions, 2): state and token of each that is emitted.
    """
    parts, found, first = [], 0, 0
    while found < n:
        trials = min(_CHUNK, -(-(n - found) // each))
        trail = np.full((trials, positions, 2), -1, np.int64)
        run(first, first + trials, trail)
        uniforms = np.empty((positions + positions % 2, trials))
        fill_tile(np.uint64(seed), first, PIT, 0, uniforms)
        trial, position = np.nonzero(trail[:, :, 1] >= 0)
        states, tokens = trail[trial, position].T
        parts.append((states, tokens, position, uniforms[position, trial]))
        found += len(tokens)
        first += trials
    return Sample(*(np.concatenate(column)[:n] for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Rows:
    """Target and draft rows of a model, float64 (n, V) each: ``lookup`` of states int64 (n,)."""

    vocab_size: int
    lookup: Callable[[Ints], tuple[Floats, Floats]]

    @classmethod
    def of(cls, model: Model, tables: Any) -> "Rows":
        """Return the rows behind the states of ``tables``, which are those of ``model``."""
        if isinstance(model, MarkovModel):
            target = stacked(model.target_rows, model.target_start)
            draft = stacked(model.draft_rows, model.draft_start)
            return cls(model.vocab_size, lambda states: (target[states], draft[states]))

        def lookup(states: Ints) -> tuple[Floats, Floats]:
            p, q = np.empty((2, len(states), model.vocab_size))
            fill_rows(tables, states, p, q)
            return p, q

        return cls(model.vocab_size, lookup)

    def parts(self, n: int) -> Iterator[slice]:
        """Parts of ``n`` tokens whose rows are laid out at a time."""
        size = max(1, _ENTRIES // self.vocab_size)
        return (slice(begin, min(begin + size, n)) for begin in range(0, n, size))


def sample_features(
    found: Sample, rows: Rows, judged: npt.NDArray[np.bool_], threads: int
) -> Features:  # fmt: skip
    """Sum up the features of a sample; ``judged`` bool (n,) as :func:`features` takes it.

    Tokens that follow each other in the sample are its pairs, from one trial to the next too:
    those within trials alone would be chosen by whether the first of them ended its trial.
    """
    follows = np.ones(len(found.tokens), bool)
    layers = min(threads, _LAYERS)

    def work(part: slice) -> Features:
        return features(
            *rows.lookup(found.states[part]), found.tokens[part], found.uniforms[part],
            judged=judged[part], follows=follows[part], threads=threads // layers,
        )  # fmt: skip

    parts = list(rows.parts(len(found.tokens)))
    with ThreadPoolExecutor(layers) as pool:
        # As many at a time as there are threads, or what is done would pile up before the sum.
        rounds = (parts[i : i + layers] for i in range(0, len(parts), layers))
        return reduce(add, (more for some in rounds for more in pool.map(work, some)))


def pits_and_ratios(
    found: Sample, rows: Rows, judged: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats]:  # fmt: skip
    """PITs (3, n) in the orders of ``features.ORDERS``, and P_m/P (M, n) of its faults."""
    records = np.empty((len(found.tokens), kernel.RECORD))
    ratios = np.empty((len(found.tokens), len(kernel.FAULTS)))
    for part in rows.parts(len(found.tokens)):
        kernel.fill(
            *rows.lookup(found.states[part]), found.tokens[part], found.uniforms[part],
            judged[part], records[part], ratios[part],
        )  # fmt: skip
    columns = [kernel.PIT_RATIO, kernel.PIT_INDEX, kernel.PIT_DESCENDING]
    return records.T[columns], ratios.T

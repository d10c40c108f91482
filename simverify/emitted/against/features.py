"""What is looked at in two engines' answers: prefixes, n-grams, single units, summaries.

Each is a difference within a pair. Weights and directions come from both answers of all pairs
together, so that they are the same whichever of a pair is swapped.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from simverify.arrays import Floats
from simverify.emitted.against.answers import END, Pairs, Unit, flat

DEPTH = 12
"""Units of a prefix at most: what few answers share is of no use."""

_RATES = 1000
"""Single units that are looked at, the most frequent."""

_ENTRIES = 50_000_000
"""Differences of single units that are kept, 400 MB."""

_LEAST = 8
"""Pairs that a unit has to be in, to be looked at by itself."""

Answer = tuple[Unit, ...]


@dataclass(frozen=True, eq=False)
class Differences:
    """What the first of each pair has more than the second: sparse (pairs, features), and names."""

    names: tuple[Hashable, ...]
    values: sparse.csr_array

    def weighted(self) -> sparse.csr_array:
        """Return them over the root of how much each varies."""
        squares = np.asarray(self.values.multiply(self.values).sum(axis=0)).ravel()
        weights = 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)) ** 0.5
        return sparse.csr_array(self.values.multiply(weights[None, :]))


def differences(pairs: Pairs, found: Callable[[int, Answer], Iterable[Hashable]]) -> Differences:
    """Count in each pair what ``found`` yields of either answer, given its prompt's number."""
    places: dict[Hashable, int] = {}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, (prompt, one, other) in enumerate(flat(pairs)):
        count = Counter(found(prompt, one))
        count.subtract(found(prompt, other))
        for feature, value in count.items():
            if value:
                rows.append(row)
                columns.append(places.setdefault(feature, len(places)))
                values.append(float(value))
    shape = (pairs.n, max(len(places), 1))
    return Differences(tuple(places), sparse.csr_array((values, (rows, columns)), shape=shape))


def prefixes(prompt: int, answer: Answer) -> Iterator[Hashable]:
    """Yield what an answer to a prompt begins with, unit by unit."""
    for length in range(1, min(len(answer), DEPTH) + 1):
        yield prompt, answer[:length]


def first_units(_prompt: int, answer: Answer) -> Iterator[Hashable]:
    """Yield the first unit, whatever the prompt."""
    yield from answer[:1]


def grams(prompt: int, answer: Answer) -> Iterator[Hashable]:
    """Yield units, pairs and triples of units of an answer to a prompt."""
    for n in (1, 2, 3):
        for i in range(len(answer) - n + 1):
            yield prompt, answer[i : i + n]


def twos(_prompt: int, answer: Answer) -> Iterator[Hashable]:
    """Yield the pairs of neighbouring units, whatever the prompt."""
    yield from _twos(answer)


def single(_prompt: int, answer: Answer) -> Iterator[Hashable]:
    """Yield the units, whatever the prompt."""
    yield from answer


def frequent(own: Differences) -> Floats:
    """Return the columns of the units that most pairs differ in, float64 (pairs, units)."""
    pairs_in = np.diff(sparse.csc_array(own.values).indptr)
    most = max(min(_RATES, _ENTRIES // own.values.shape[0]), 1)
    order = np.argsort(-pairs_in, kind="stable")[:most]
    kept = order[pairs_in[order] >= _LEAST]
    if not len(kept):
        kept = order[:1]
    return np.asarray(own.values[:, kept].toarray(), dtype=np.float64)


def within(values: sparse.csr_array, groups: Sequence[int]) -> list[Floats]:
    """Return the inner products of the pairs of each group."""
    found, at = [], 0
    for size in groups:
        own = values[at : at + size]
        found.append(np.asarray((own @ own.T).toarray(), dtype=np.float64))
        at += size
    return found


def summaries(pairs: Pairs) -> tuple[tuple[str, ...], Floats]:
    """Return what each pair differs by in a few numbers, float64 (pairs, summaries), with names."""
    every = [(prompt, answer) for prompt, *both in flat(pairs) for answer in both]
    units = Counter(unit for _, answer in every for unit in answer)
    follows = Counter(two for _, answer in every for two in _twos(answer))
    starts = Counter(start for prompt, answer in every for start in prefixes(prompt, answer))
    log = {unit: math.log(count) for unit, count in units.items()}
    total = math.log(sum(units.values()) or 1)
    after_log = {two: math.log(count) - log[two[0]] for two, count in follows.items()}

    def measured(prompt: int, answer: Answer) -> list[float]:
        n = max(len(answer), 1)
        common = sum(log[unit] - total for unit in answer) / n
        after = [after_log[two] for two in _twos(answer)]
        deep = [math.log(starts[start]) for start in prefixes(prompt, answer)]
        return [
            len(answer), float(answer[-1:] == (END,)), common, sum(after) / n, sum(deep),
            len(set(answer)) / n,
        ]  # fmt: skip

    names = ("length", "ended by itself", "frequency of its units", "frequency of what follows",
             "how many begin like it", "share of distinct units")  # fmt: skip
    found = [np.subtract(measured(p, a), measured(p, b)) for p, a, b in flat(pairs)]
    return names, np.array(found, dtype=np.float64)


def _twos(answer: Answer) -> Iterator[tuple[Unit, Unit]]:
    yield from pairwise(answer)

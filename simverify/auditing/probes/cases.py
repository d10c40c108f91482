"""The rows that edge probes are run on: by position, cycled, the same under both contracts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simverify.arrays import Row

_NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Case:
    """A target and a draft whose row depends on the position alone.

    ``targets`` and ``drafts`` are float64 (n, V), row i for positions i, i + n, ...; rows sum
    to 1 unless the case is about rows that do not.
    """

    name: str
    gamma: int
    targets: Row
    drafts: Row

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.targets.shape[1])

    def target(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the target after ``prefix``."""
        row: Row = self.targets[len(prefix) % len(self.targets)]
        return row.copy()

    def draft(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the draft after ``prefix``."""
        row: Row = self.drafts[len(prefix) % len(self.drafts)]
        return row.copy()

    def block(self) -> tuple[Row, Row]:
        """Fresh target rows (gamma+1, V) and draft rows (gamma, V) of one call."""
        n = len(self.targets)
        places = np.arange(self.gamma + 1) % n
        return self.targets[places], self.drafts[places[:-1]]


def case(name: str, gamma: int, *pairs: tuple[Sequence[float], Sequence[float]]) -> Case:
    """Case from pairs (target weights, draft weights), normalised; all-zero rows stay zero."""
    targets, drafts = (np.array([pair[i] for pair in pairs], dtype=np.float64) for i in (0, 1))
    for rows in (targets, drafts):
        total = rows.sum(axis=1, keepdims=True)
        rows /= np.where(total == 0, 1.0, total)
    return Case(name, gamma, targets, drafts)


MIXED = case(
    "zeros on either side", 2,
    ([0, 2, 2, 0], [2, 1, 0, 1]), ([0, 1, 3, 0], [1, 2, 0, 1]), ([0, 1, 1, 0], [1, 1, 1, 1]),
)  # fmt: skip
"""A residual and a bonus with no mass at either end of the vocabulary; p = 0 < q at both."""

PLAIN = case("plain", 3, ([5, 1, 6], [6, 2, 4]), ([6, 3, 3], [5, 6, 1]), ([4, 2, 6], [2, 9, 1]))

OTHER = case("another call", 2, ([1, 4, 2, 1, 0], [3, 1, 0, 1, 2]), ([1, 0, 2, 0, 3], [1] * 5))
"""What is called in between: another vocabulary and another gamma."""

# The running float64 sum of 33 equal parts ends at 1 - 6 * 2^-53: an inverse CDF that is not
# guarded runs out.
SHORT = case("a sum below 1", 1, ([1] * 33, [1] * 33))

EQUAL = case("p = q", 3, ([1, 2, 4], [1, 2, 4]), ([5, 2, 0], [5, 2, 0]), ([3, 3, 1], [3, 3, 1]))

DISJOINT = case("disjoint", 2, ([1, 2, 0, 0], [0, 0, 1, 3]), ([0, 0, 3, 1], [2, 1, 0, 0]))

ONE_HOT_DRAFT = case(
    "one-hot drafts", 2, ([2, 1, 3], [1, 0, 0]), ([0, 1, 2], [1, 0, 0]), ([1, 2, 1], [0, 0, 1])
)

ONE_HOT_TARGET = case(
    "one-hot targets", 2, ([0, 1, 0], [1, 2, 1]), ([0, 0, 1], [1, 1, 4]), ([1, 0, 0], [3, 1, 0])
)

ENDS = case("ids 0 and V-1", 2, ([1, 0, 0, 0, 1], [3, 1, 0, 0, 1]), ([1, 0, 0, 0, 1], [1] * 5))

SINGLE = case("gamma = 1", 1, ([5, 1, 6], [6, 2, 4]), ([6, 3, 3], [5, 6, 1]))

UNDRAFTED = case(
    "p = q = 0", 2,
    ([2, 1, 0], [1, 2, 0]), ([0, 1, 2], [0, 2, 1]), ([1, 1, 0], [1, 1, 0]),
)  # fmt: skip
"""With the drafts (2, 0) each draft token has p = q = 0."""


def large(vocab_size: int = 1000) -> Case:
    """Return random rows over a large vocabulary, a third of the entries zero."""
    rng = np.random.Generator(np.random.PCG64(1000))
    rows = rng.standard_exponential((2, 4, vocab_size)) * (rng.random((2, 4, vocab_size)) < 2 / 3)
    rows /= rows.sum(axis=2, keepdims=True)
    return Case(f"V = {vocab_size}", 3, rows[0], rows[1])


def broken(value: float) -> tuple[Case, ...]:
    """Cases with target rows, draft rows or all rows that hold nothing but ``value``."""
    bad = np.full_like(PLAIN.targets, value)
    last = np.vstack([PLAIN.targets[:2], bad[:1]])
    return (
        Case("the target", 3, bad, PLAIN.drafts),
        Case("the draft", 3, PLAIN.targets, bad),
        Case("one target row", 3, last, PLAIN.drafts),
        Case("all rows", 3, bad, bad),
    )


ZERO_ROWS = broken(0.0)
NAN_ROWS = broken(_NAN)

"""Laws of token sequences of different lengths, and how far apart two of them are.

A sequence that ends early stands for all that begin with it, in the target's proportions;
one after which nothing is known stands for its own probability alone. Two laws are compared
on the coarsest partition that both know, so nothing is lost and nothing is spread out.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.symbolic.enumeration.endings import Tokens


@dataclass(frozen=True)
class Tree:
    """A law of sequences.

    ``ends``: probability of each, which is completed with the target; ``open``: of those after
    which nothing is known. ``row(tokens)``: the target's row (V,) after the tokens.
    """

    ends: Mapping[Tokens, float]
    row: Callable[[Tokens], Row]
    open: Mapping[Tokens, float]

    @cached_property
    def through(self) -> dict[Tokens, float]:
        """Probability of the sequences that begin with each of their beginnings."""
        found: dict[Tokens, float] = {}
        for some in (self.ends, self.open):
            for tokens, mass in some.items():
                for i in range(len(tokens) + 1):
                    found[tokens[:i]] = found.get(tokens[:i], 0.0) + mass
        return found

    @cached_property
    def inner(self) -> frozenset[Tokens]:
        """Beginnings that some longer sequence has, and after which all is known."""
        open_ = set(self.open)
        return frozenset(
            tokens[:i]
            for some in (self.ends, self.open)
            for tokens in some
            for i in range(len(tokens))
            if not any(tokens[:j] in open_ for j in range(i + 1))
        )

    def mass(self, tokens: Tokens) -> float:
        """Probability that a sequence begins with ``tokens``; NaN where that is not known."""
        inflow = 0.0
        for i, token in enumerate(tokens):
            before = tokens[:i]
            if before in self.open:
                return math.nan
            out = inflow + self.ends.get(before, 0.0)
            inflow = out * float(self.row(before)[token]) if out else 0.0
        return inflow + self.through.get(tokens, 0.0)


@dataclass(frozen=True)
class Transcripts:
    """A law of what a drafter returned, call after call: the reported row and the tokens."""

    ends: Mapping[tuple[Any, ...], float]


@dataclass(frozen=True)
class Cell:
    """Sequences that begin with ``tokens``, and their probabilities by two laws."""

    tokens: Tokens
    one: float
    other: float

    @property
    def gap(self) -> float:
        """How far apart the two are."""
        return abs(self.one - self.other)


def target_tree(row: Callable[[Tokens], Row]) -> Tree:
    """Return the target's own law."""
    return Tree({(): 1.0}, row, {})


def cells(one: Tree, other: Tree) -> Iterator[tuple[Cell, bool]]:
    """Yield the cells of all beginnings that both know, and whether they are parted no further."""
    waiting: list[tuple[Tokens, float, float]] = [((), 0.0, 0.0)]
    while waiting:
        tokens, in_one, in_other = waiting.pop()
        cell = Cell(
            tokens,
            in_one + one.through.get(tokens, 0.0),
            in_other + other.through.get(tokens, 0.0),
        )
        inner = tokens in one.inner or tokens in other.inner
        last = not inner or tokens in one.open or tokens in other.open
        yield cell, last
        if last:
            continue
        row = one.row(tokens)
        out_one = in_one + one.ends.get(tokens, 0.0)
        out_other = in_other + other.ends.get(tokens, 0.0)
        for token in range(len(row) - 1, -1, -1):
            share = float(row[token])
            waiting.append(((*tokens, token), out_one * share, out_other * share))


def gaps_by_position(one: Tree, other: Tree) -> tuple[list[float], Cell]:
    """Return the TV of the first j + 1 tokens for each j, and the last cell of largest gap."""
    parted: list[float] = []
    whole: list[float] = []
    worst: Cell | None = None

    def add(sums: list[float], depth: int, gap: float) -> None:
        sums.extend([0.0] * (depth + 1 - len(sums)))
        sums[depth] += gap

    for cell, last in cells(one, other):
        add(parted, len(cell.tokens), cell.gap)
        if last:
            add(whole, len(cell.tokens), cell.gap)
            if worst is None or cell.gap > worst.gap:
                worst = cell
    assert worst is not None
    tvs, above = [], 0.0
    for depth in range(1, len(parted)):
        above += whole[depth - 1] if depth - 1 < len(whole) else 0.0
        tvs.append((parted[depth] + above) / 2)
    return tvs or [0.0], worst


def excess(one: Tree, other: Tree) -> float:
    """Return by how much the first law is above the second, in the last cell where it is most."""
    return max(0.0, max(cell.one - cell.other for cell, last in cells(one, other) if last))


def probability(law: Row | Tree | Transcripts, tokens: Tokens) -> float:
    """Probability that a sequence begins with ``tokens``; ``law`` may be an array (V,) * length."""
    assert not isinstance(law, Transcripts), "what a drafter returned is no output"
    return law.mass(tokens) if isinstance(law, Tree) else float(law[tokens].sum())


def distance(one: Row | Tree | Transcripts, other: Row | Tree | Transcripts) -> float:
    """Total variation distance of two laws of one form, as far as both are known."""
    if isinstance(one, Transcripts) and isinstance(other, Transcripts):
        met = {*one.ends, *other.ends}
        return sum(abs(one.ends.get(x, 0.0) - other.ends.get(x, 0.0)) for x in met) / 2
    if not isinstance(one, Tree) or not isinstance(other, Tree):
        return float(np.abs(one - other).sum() / 2)  # type: ignore[operator]
    return sum(cell.gap for cell, last in cells(one, other) if last) / 2

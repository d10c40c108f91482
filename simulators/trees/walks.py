"""Tables of the rules that walk down a tree: chances of acceptance, and what follows rejections.

Each rule's formula is in its own file in ``simverify.verifiers.trees``. Chances and residuals
depend on the number of children k, and are tabled for each k that the shape has.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints, Row
from simverify.simulators.kernels.tables.alias import build_alias
from simverify.simulators.kernels.tables.markov import MarkovTables
from simverify.simulators.kernels.trees.judging import Family
from simverify.simulators.kernels.trees.row_walk import LastChild
from simverify.simulators.kernels.trees.walk import Residuals, Tournament, Walk
from simverify.simulators.trees.drafts import likeliest
from simverify.trees import ROOT, Drafting, TreeShape
from simverify.verifiers.base import excess
from simverify.verifiers.trees import k_seq
from simverify.verifiers.trees.base import most_children, normalised, off

Law = tuple[Row, Row]
"""Chance (V,) that a token is accepted, and what is drawn after a rejection (V,), unnormalised."""


def naive(tables: MarkovTables, drafting: Drafting) -> Walk:
    """The token rule on the first child."""
    laws = _laws(tables, drafting, lambda p, q, k: (chance(p, q), excess(p, q)))
    return _walk(tables, drafting, *laws, tested=lambda k: 0)


def by_target(tables: MarkovTables, drafting: Drafting) -> Walk:
    """Draw from the target's row: match, and the walk on a fixed tree, whose coin does the same."""
    kinds = len(_counts(drafting.shape))
    test = np.full((kinds, max(most_children(drafting.shape), 1)), -1)
    none = np.empty((0, *tables.target.shape))
    return Walk(_kinds(drafting.shape), test, none, np.full(kinds, -1), aliases(none))


def k_seq_walk(tables: MarkovTables, drafting: Drafting) -> Walk:
    """Every child has the same chance."""

    def law(p: Row, q: Row, k: int) -> Law:
        rho, accepted = k_seq.shares(p, q, k)
        return chance(p, rho * q), excess(p, accepted)

    return _walk(tables, drafting, *_laws(tables, drafting, law))


def recursive(tables: MarkovTables, drafting: Drafting) -> Walk:
    """One residual after the other; the children in one place have one table, whatever k."""
    residuals = [tables.target]
    for _ in range(most_children(drafting.shape)):
        residuals.append(_rows(excess(residuals[-1], tables.draft), tables.target))
    counts = _counts(drafting.shape)
    test = np.full((len(counts), max(counts)), -1)
    for kind, k in enumerate(counts):
        test[kind, :k] = range(k)
    accept = np.stack([chance(r, tables.draft) for r in residuals[:-1]])
    laws = aliases(np.stack([residuals[k] for k in counts[1:]]))
    return Walk(_kinds(drafting.shape), test, accept, _after(counts), laws)


def spechub(tables: MarkovTables, drafting: Drafting) -> Walk:
    """The second child is tested, with the mean of its chances as first and second of a pair."""

    def law(p: Row, q: Row, k: int) -> Law:
        hub = int(np.argmax(q))
        share = off(q, [hub])
        if k == 1 or not share.any():
            return 0 * p, p
        as_second = chance(excess(p, q), share - q)
        return q[hub] * as_second + (1 - q[hub]) * chance(p, q), excess(p, share)

    return _walk(tables, drafting, *_laws(tables, drafting, law), tested=lambda k: k - 1)


def greedy_draft(tables: MarkovTables, drafting: Drafting) -> Walk:
    """The last child is tested; the others are the likeliest tokens."""

    def law(p: Row, q: Row, k: int) -> Law:
        certain = likeliest(q, k - 1).tolist()
        last = off(q, certain)
        if not last.any():
            # There is no last child: all that the draft can emit is certain.
            return 0 * p, p
        return chance(p, last), excess(p, last)

    return _walk(tables, drafting, *_laws(tables, drafting, law), tested=lambda k: k - 1)


def tournament(tables: MarkovTables, drafting: Drafting) -> Tournament:
    """The best child is tested against the law of the best."""
    # The order and the law of the best as in the rule, by numpy: sorting tokens one by one takes
    # a minute at V = 152,064.
    key = tables.target - tables.draft**2
    ranked = np.stack([np.argsort(row, kind="stable") for row in key]).astype(np.int32)
    rank = np.empty_like(ranked)
    np.put_along_axis(rank, ranked, np.arange(key.shape[1], dtype=np.int32)[None], axis=1)
    upto = np.cumsum(np.take_along_axis(tables.draft, ranked, axis=1), axis=1)
    counts = _counts(drafting.shape)
    accept, residuals = np.empty((2, len(counts) - 1, *key.shape))
    best = np.empty(key.shape)
    for which, k in enumerate(counts[1:]):
        np.put_along_axis(best, ranked, upto**k, axis=1)
        under = np.maximum(np.take_along_axis(upto, rank, axis=1) - tables.draft, 0)
        best -= under**k
        accept[which] = chance(tables.target, best)
        residuals[which] = _rows(excess(tables.target, best), tables.target)
    return Tournament(_kinds(drafting.shape), _after(counts), rank, accept, aliases(residuals))


def chance(p: Floats, q: Floats) -> Floats:
    """Return min(1, p/q); a token of q = 0 is not accepted, be it drafted for certain."""
    return np.minimum(np.divide(p, q, out=np.zeros_like(p), where=q > 0), 1)


def aliases(rows: Floats) -> Residuals:
    """Return the alias tables of rows (laws, S+1, V) that sum to 1."""
    cut, other = np.empty_like(rows), np.empty(rows.shape, np.int32)
    for law in range(len(rows)):
        build_alias(rows[law], cut[law], other[law])
    return Residuals(cut, other)


def _laws(
    tables: MarkovTables, drafting: Drafting, law: Callable[[Row, Row, int], Law]
) -> tuple[Floats, Floats]:
    """Return chances and residuals (laws, S+1, V), one each per number of children above 0."""
    counts = _counts(drafting.shape)[1:]
    accept, residuals = np.empty((2, len(counts), *tables.target.shape))
    for which, k in enumerate(counts):
        for r, (p, q) in enumerate(zip(tables.target, tables.draft, strict=True)):
            accept[which, r], after = law(p, q, k)
            residuals[which, r] = normalised(after, p)
    return accept, residuals


def _walk(
    tables: MarkovTables,
    drafting: Drafting,
    accept: Floats,
    residuals: Floats,
    tested: Callable[[int], int] | None = None,
) -> Walk:
    """Return the walk that tests the child in the place ``tested(k)``; by default all of them."""
    counts = _counts(drafting.shape)
    test = np.full((len(counts), max(counts)), -1)
    for kind, k in enumerate(counts[1:], start=1):
        place = slice(k) if tested is None else tested(k)
        test[kind, place] = kind - 1
    return Walk(_kinds(drafting.shape), test, accept, _after(counts), aliases(residuals))


def _rows(weights: Floats, otherwise: Floats) -> Floats:
    return np.array([normalised(w, p) for w, p in zip(weights, otherwise, strict=True)])


def _counts(shape: TreeShape) -> list[int]:
    """Numbers of children that the nodes of ``shape`` have; the first is 0, of the leaves."""
    return sorted(set(map(len, shape.children.values())))


def _after(counts: list[int]) -> Ints:
    """Return the laws that follow where no child is accepted: the target where there is none."""
    return np.arange(len(counts)) - 1


def _kinds(shape: TreeShape) -> Ints:
    counts = _counts(shape)
    nodes = range(ROOT, len(shape))
    return np.array([counts.index(len(shape.children[node])) for node in nodes], np.int64)


def _greedy_draft(tables: MarkovTables, drafting: Drafting) -> Any:
    # Where the other children are drawn, what the last one is a sample of depends on them.
    if drafting.scheme.name == "last-sampled":
        return greedy_draft(tables, drafting)
    return LastChild()


NAIVE = Family(naive)
BY_TARGET = Family(by_target)
K_SEQ = Family(k_seq_walk)
RECURSIVE = Family(recursive)
SPECHUB = Family(spechub)
GREEDY_DRAFT = Family(_greedy_draft, lambda drafting: 2)
TOURNAMENT = Family(tournament)

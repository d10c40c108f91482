"""Runs the compiled loop over draft trees: ranges of trials, on threads, into counts.

The tables that the kernels of each rule read are made here, once for each model and shape.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import njit

from simverify.arrays import Floats, Ints, Row
from simverify.errors import UsageError
from simverify.simulators import kernels
from simverify.simulators.kernels import trees as tree_kernels
from simverify.simulators.kernels.markov import MarkovTables, build_alias
from simverify.simulators.run import TRIAL_CHUNK, Counts, Loop, TokenSample
from simverify.trees import ROOT, Drafting, TreeShape
from simverify.verifiers.base import Verifier, excess, resolve_part
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier, k_seq
from simverify.verifiers.trees.base import exclude_tokens, max_children, normalised

# A drafting as the kernels read it: each node's parent, and the tokens that are certain.


def likeliest_tokens(q: Row, k: int) -> Ints:
    """Return the ``k`` likeliest tokens of q (V,), equal ones by id, as ``Scheme.fixed``.

    The same by numpy: a large vocabulary takes it seconds.
    """
    return np.argsort(-q, kind="stable")[:k]


def kernel_drafts(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Drafts:
    """Return the arrays of ``drafting`` on the rows of ``tables``."""
    shape, scheme = drafting.shape, drafting.scheme
    groups = [shape.children[node] for node in range(ROOT, len(shape))]
    certain = [max(scheme.certain(len(group)), 0) if group else 0 for group in groups]
    most = min(max(certain), tables.draft.shape[1])
    fixed = np.empty((len(tables.draft), most), np.int32)
    if most:
        for row, q in zip(fixed, tables.draft, strict=True):
            row[:] = likeliest_tokens(q, most)
    return tree_kernels.Drafts(
        first=np.cumsum([0, *map(len, groups)]),
        child=np.array([child + 1 for group in groups for child in group], np.int64),
        parent=np.array([0, *(parent + 1 for parent in shape.parents)], np.int64),
        certain=np.array(certain, np.int64),
        fixed=fixed,
        replaced=scheme.replaced,
    )


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
    **counted: Any,
) -> Counts:
    """Draft and judge ``trials`` trees from the model's start by ``rule``.

    ``counted`` as in :meth:`~simverify.simulators.run.Loop.count`; tau goes up to the depth of
    the tree. Neither ``threads`` nor their timing changes the result.

    Raises ``UsageError`` for a rule that is not one of :func:`compiled_rules`, or a model whose
    rows do not follow from its last token.
    """
    return _tree_loop(tables, rule, drafting, seed)[0].count(trials, threads, **counted)


def sample_trees(
    tables: Any, rule: Rule, drafting: Drafting, n: int, *, seed: int, positions: int | None = None
) -> TokenSample:
    """Return the first ``n`` tokens at the first ``positions`` of the trials 0, 1, ...

    They are those that :func:`simulate_trees` counts; by default at all positions, the depth of
    the tree and one.
    """
    loop, _ = _tree_loop(tables, rule, drafting, seed)
    return loop.sample(n, loop.gamma + 1 if positions is None else positions)


def count_nodes(tables: Any, rule: Rule, drafting: Drafting, trials: int, *, seed: int) -> Ints:
    """Return how many of the trials 0, 1, ... kept the way through each node, int64 (n,).

    They are those that :func:`simulate_trees` counts. Among equal siblings the first counts whose
    descendants hold the other accepted tokens.
    """
    loop, inputs = _tree_loop(tables, rule, drafting, seed)
    emitted, most = loop.trails(loop.gamma + 1), max_children(drafting.shape)
    counts = np.zeros(len(drafting.shape), np.int64)
    for first in range(0, trials, TRIAL_CHUNK):
        trail = emitted(first, min(first + TRIAL_CHUNK, trials))
        tree_kernels.count_ways(tables, inputs.drafts, np.uint64(seed), first, trail, most, counts)
    return counts


def _tree_loop(
    tables: Any, rule: Rule, drafting: Drafting, seed: int
) -> "tuple[Loop, _KernelInputs]":
    inputs = _kernel_inputs(_IdentityKey(tables), _family(rule, drafting), drafting)

    def start() -> Callable[..., None]:
        fixed = tables, inputs.family, inputs.drafts, inputs.scratch(), np.uint64(seed)
        return lambda *trials: inputs.loop(*fixed, *trials)

    return Loop(start, drafting.shape.depth, seed), inputs


@dataclass(frozen=True, eq=False)
class _KernelInputs:
    """A rule's own tables and the drafting, as the kernels read them, and the room they need."""

    family: Any
    drafts: Any
    places: int
    rows: tuple[int, int]

    @property
    def loop(self) -> Any:
        """The compiled loop."""
        ours = type(self.family).__module__.startswith(f"{kernels.__name__}.")
        return tree_kernels.generate_trees if ours else _uncached()

    def scratch(self) -> tree_kernels.Scratch:
        return tree_kernels.Scratch(
            np.empty((3, self.places), np.int64), np.empty((4, self.places)), np.empty(self.rows)
        )


@dataclass(frozen=True, eq=False)
class _IdentityKey:
    """Tables as a key of a cache, by identity and not by content."""

    tables: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and other.tables is self.tables

    def __hash__(self) -> int:
        return id(self.tables)


# A comparison takes one rule after the other, and each in several runs. For a large vocabulary the
# tables of a rule take hundreds of megabytes, so only two are kept.
@lru_cache(maxsize=2)
def _kernel_inputs(
    given: _IdentityKey, family: tree_kernels.Family, drafting: Drafting
) -> _KernelInputs:
    tables = given.tables
    if not isinstance(tables, MarkovTables):
        raise UsageError(
            "draft trees are simulated on Markov models: got one whose rows do not follow from "
            "the last token; use markov-V, toy, compact or a file of rows"
        )
    shape = drafting.shape
    return _KernelInputs(
        family.build(tables, drafting),
        kernel_drafts(tables, drafting),
        max(shape.depth + 2, max_children(shape)),
        (family.rows(drafting), tables.draft.shape[1]),
    )


def _family(rule: Rule, drafting: Drafting) -> tree_kernels.Family:
    if not isinstance(rule, Verifier):
        name = rule if isinstance(rule, str) else rule.name
        if name not in (known := compiled_rules(drafting)):
            raise UsageError(
                f"no kernel of {name!r} for siblings drafted by {drafting.scheme.name} on "
                f"{drafting.shape.words()}: choose from {', '.join(known)}"
            )
        rule = TREE_VERIFIERS[name]
    family: tree_kernels.Family = resolve_part(rule.kernel)
    return family


@cache
def _uncached() -> Any:
    """Return the loop for kernels of other packages.

    With Numba's cache they would run as they were before an edit, and a process that cannot import
    them could not read the cache of our kernels.
    """
    return njit(nogil=True, error_model="numpy")(tree_kernels.generate_trees.py_func)


# Tables of the rules that walk down the tree: chances of acceptance, and laws after rejections.
#
# Each rule's formula is in its own file in ``simverify.verifiers.trees``. Chances and residuals
# depend on the number of children k, and are tabled for each k that the shape has.


Law = tuple[Row, Row]
"""Chance (V,) that a token is accepted, and the law after a rejection (V,), unnormalised."""


def naive(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Walk:
    """The token rule on the first child."""

    def law(p: Row, q: Row, k: int) -> Law:
        return acceptance_probability(p, q), excess(p, q)

    return _make_walk(tables, drafting, law, tested=lambda k: 0)


def target_walk(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Walk:
    """Draw from the target's row: match, and the walk on a fixed tree, whose coin does the same."""
    kinds = len(drafting.shape.child_counts)
    test = np.full((kinds, max(max_children(drafting.shape), 1)), -1)
    none = np.empty((0, *tables.target.shape))
    return tree_kernels.Walk(
        _node_kinds(drafting.shape), test, none, np.full(kinds, -1), residual_aliases(none)
    )


def k_seq_walk(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Walk:
    """Every child has the same chance."""

    def law(p: Row, q: Row, k: int) -> Law:
        rho, accepted = k_seq.accepted_shares(p, q, k)
        return acceptance_probability(p, rho * q), excess(p, accepted)

    return _make_walk(tables, drafting, law)


def recursive(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Walk:
    """One residual after the other; the children in one place have one table, whatever k."""
    residuals = [tables.target]
    for _ in range(max_children(drafting.shape)):
        residuals.append(_normalized_rows(excess(residuals[-1], tables.draft), tables.target))
    counts = drafting.shape.child_counts
    test = np.full((len(counts), max(counts)), -1)
    for kind, k in enumerate(counts):
        test[kind, :k] = range(k)
    accept = np.stack([acceptance_probability(r, tables.draft) for r in residuals[:-1]])
    laws = residual_aliases(np.stack([residuals[k] for k in counts[1:]]))
    return tree_kernels.Walk(_node_kinds(drafting.shape), test, accept, _next_laws(counts), laws)


def spechub(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Walk:
    """The second child is tested, with the mean of its chances as first and second of a pair."""

    def law(p: Row, q: Row, k: int) -> Law:
        hub = int(np.argmax(q))
        share = exclude_tokens(q, [hub])
        if k == 1 or not share.any():
            return 0 * p, p
        as_second = acceptance_probability(excess(p, q), share - q)
        return q[hub] * as_second + (1 - q[hub]) * acceptance_probability(p, q), excess(p, share)

    return _make_walk(tables, drafting, law, tested=lambda k: k - 1)


def greedy_draft(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Walk:
    """The last child is tested; the others are the likeliest tokens."""

    def law(p: Row, q: Row, k: int) -> Law:
        certain = likeliest_tokens(q, k - 1).tolist()
        last = exclude_tokens(q, certain)
        if not last.any():
            # There is no last child: all tokens of the draft are certain.
            return 0 * p, p
        return acceptance_probability(p, last), excess(p, last)

    return _make_walk(tables, drafting, law, tested=lambda k: k - 1)


def tournament(tables: MarkovTables, drafting: Drafting) -> tree_kernels.Tournament:
    """The best child is tested against the law of the best."""
    # The order and the law of the best as in the rule, by numpy: sorting tokens one by one takes
    # a minute at V = 152,064.
    key = tables.target - tables.draft**2
    ranked = np.stack([np.argsort(row, kind="stable") for row in key]).astype(np.int32)
    rank = np.empty_like(ranked)
    np.put_along_axis(rank, ranked, np.arange(key.shape[1], dtype=np.int32)[None], axis=1)
    upto = np.cumsum(np.take_along_axis(tables.draft, ranked, axis=1), axis=1)
    counts = drafting.shape.child_counts
    accept, residuals = np.empty((2, len(counts) - 1, *key.shape))
    best = np.empty(key.shape)
    for which, k in enumerate(counts[1:]):
        np.put_along_axis(best, ranked, upto**k, axis=1)
        under = np.maximum(np.take_along_axis(upto, rank, axis=1) - tables.draft, 0)
        best -= under**k
        accept[which] = acceptance_probability(tables.target, best)
        residuals[which] = _normalized_rows(excess(tables.target, best), tables.target)
    return tree_kernels.Tournament(
        _node_kinds(drafting.shape), _next_laws(counts), rank, accept, residual_aliases(residuals)
    )


def acceptance_probability(p: Floats, q: Floats) -> Floats:
    """Return min(1, p/q); a token of q = 0 is not accepted, be it drafted for certain."""
    return np.minimum(np.divide(p, q, out=np.zeros_like(p), where=q > 0), 1)


def residual_aliases(rows: Floats) -> tree_kernels.Residuals:
    """Return the alias tables of rows (laws, S+1, V) that sum to 1."""
    cut, other = np.empty_like(rows), np.empty(rows.shape, np.int32)
    for law in range(len(rows)):
        build_alias(rows[law], cut[law], other[law])
    return tree_kernels.Residuals(cut, other)


def _make_walk(
    tables: MarkovTables,
    drafting: Drafting,
    law: Callable[[Row, Row, int], Law],
    tested: Callable[[int], int] | None = None,
) -> tree_kernels.Walk:
    """Return the walk that tests the child in the place ``tested(k)``; by default all of them."""
    counts = drafting.shape.child_counts
    test = np.full((len(counts), max(counts)), -1)
    # Chances and residuals (laws, S+1, V), one each per number of children above 0.
    accept, residuals = np.empty((2, len(counts) - 1, *tables.target.shape))
    for which, k in enumerate(counts[1:]):
        test[which + 1, slice(k) if tested is None else tested(k)] = which
        for r, (p, q) in enumerate(zip(tables.target, tables.draft, strict=True)):
            accept[which, r], after = law(p, q, k)
            residuals[which, r] = normalised(after, p)
    return tree_kernels.Walk(
        _node_kinds(drafting.shape), test, accept, _next_laws(counts), residual_aliases(residuals)
    )


def _normalized_rows(weights: Floats, otherwise: Floats) -> Floats:
    return np.array([normalised(w, p) for w, p in zip(weights, otherwise, strict=True)])


def _next_laws(counts: tuple[int, ...]) -> Ints:
    """Return the laws that follow where no child is accepted: the target where there is none."""
    return np.arange(len(counts)) - 1


def _node_kinds(shape: TreeShape) -> Ints:
    counts = shape.child_counts
    nodes = range(ROOT, len(shape))
    return np.array([counts.index(len(shape.children[node])) for node in nodes], np.int64)


def _greedy_draft(tables: MarkovTables, drafting: Drafting) -> Any:
    # Where the other children are drawn, what the last one is a sample of depends on them.
    if drafting.scheme.name == "last-sampled":
        return greedy_draft(tables, drafting)
    return tree_kernels.LastChild()


NAIVE = tree_kernels.Family(naive)
BY_TARGET = tree_kernels.Family(target_walk)
K_SEQ = tree_kernels.Family(k_seq_walk)
RECURSIVE = tree_kernels.Family(recursive)
SPECHUB = tree_kernels.Family(spechub)
GREEDY_DRAFT = tree_kernels.Family(_greedy_draft, lambda drafting: 2)
TOURNAMENT = tree_kernels.Family(tournament)

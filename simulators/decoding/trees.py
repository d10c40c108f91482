"""Speculative decoding of real models by rules for draft trees, batched.

Lanes and requests are those of :mod:`~simverify.simulators.decoding.loop`. The draft is called
once a level, the target once a tree. A mask lets each node see only its own path from the root, as
in engines (SpecInfer, 2023).
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.simulators.decoding.job import DecodedRun, RunObserver
from simverify.simulators.decoding.loop import (
    PLAIN_DRAFTING,
    RULES,
    Block,
    Clock,
    Job,
    LaneBatch,
    block_curves,
    lane_generator,
)
from simverify.simulators.decoding.loop import Text as Tokens
from simverify.simulators.exact.bounds import best_hit
from simverify.simulators.kernels.philox import ACCEPT, DRAFT
from simverify.trees import ROOT, Drafting, DraftTree, GrowingTree, Scheme, TreeShape
from simverify.verifiers.trees import TreeVerifier

# What a rule, and the best rule, accept in expectation on the trees that were drawn.
#
# The law of all trees is out of reach on models whose rows cannot be listed. Each drawn tree tells
# a part of it: means over calls are those of the laws at the prefixes that were visited.


Subtree = tuple[Any, ...]  # A shape by what lies below each child, in any order

MAX_ORDERS = 2_000
"""Most orders of the siblings but two that are drawn without replacement, for their law."""


@dataclass(frozen=True, eq=False)
class DrawnTree:
    """A tree with its rows ``p``, ``q`` float64 (n+1, V), after the prefix and after each node.

    ``places``: each node's number in the drafted shape, of which some nodes may be missing.
    """

    tree: DraftTree
    places: tuple[int, ...]
    p: Floats
    q: Floats


@dataclass(frozen=True)
class TreeExpectation:
    """What rules can keep of trees by ``drafting``, tree by tree."""

    drafting: Drafting

    @property
    def by(self) -> Literal["closed-form", "counting"]:
        """Whether :meth:`levels` are those of the best rule without state, or bounds on them."""
        return "counting" if self._kind == "counted" else "closed-form"

    @cached_property
    def _kind(self) -> Literal["certain", "chain", "level", "counted"]:
        shape, scheme = self.drafting.shape, self.drafting.scheme
        counts = [len(children) for children in shape.children.values() if children]
        if all(scheme.certain(k) >= k for k in counts):
            return "certain"
        if shape.is_chain:
            return "chain"
        # A law of many siblings without replacement is too slow to compute in each call.
        samples = counts[0] - scheme.certain(counts[0])
        if shape.depth == 1 and (scheme.replaced or samples <= 1):
            return "level"
        return "counted"

    def levels(self, drawn: DrawnTree) -> tuple[Floats, Floats]:
        """Return bounds (depth,) on Pr(tau >= l): for rules without state, and for any rule.

        Their means over trees that were drafted at one prefix bound those probabilities there;
        in closed form they are those of the best rule.
        """
        if self._kind == "chain":
            bounds = block_curves(Block(0, 0, True, drawn.p, drawn.q, drawn.tree.tokens, 0, ()))
            return bounds[RULES.index("block")], bounds[RULES.index("greedy")]
        if self._kind == "certain":
            levels = self._of_target(drawn)
        elif self._kind == "level":
            levels = np.array([self._first(drawn)])
        else:
            levels = self._counted(drawn)
        return levels, levels

    def expected(self, rule: TreeVerifier, drawn: DrawnTree) -> Floats | None:
        """Return the chances (depth,) that ``rule`` keeps l tokens, where all rows tell them."""
        if rule.by_target:
            return self._of_target(drawn)
        if self._kind == "chain" and rule.block_on_chain:
            return self.levels(drawn)[0]
        return None

    def _of_target(self, drawn: DrawnTree) -> Floats:
        levels = np.zeros(self.drafting.shape.depth)
        for text, (_, mass) in _text_rows(drawn).items():
            if text:
                levels[len(text) - 1] += mass
        return levels

    def _first(self, drawn: DrawnTree) -> float:
        shape, scheme = self.drafting.shape, self.drafting.scheme
        return float(best_hit(drawn.p[0], drawn.q[0], len(shape.children[ROOT]), scheme))

    def _counted(self, drawn: DrawnTree) -> Floats:
        """Bound each level by the target's own texts being in the tree.

        A rule keeps a text o with probability min(Pr(o), Pr(o is in the tree)) at most. The sum
        over all texts of a length is that over the ways of the tree, each by 1 / Pr(it is in
        the tree) (Horvitz and Thompson, 1952).
        """
        shape, scheme = self.drafting.shape, self.drafting.scheme
        below = _subtree(shape)
        if not _has_countable_law(below, scheme, drawn.q):
            return np.ones(shape.depth)
        levels, texts = np.zeros(shape.depth), _text_rows(drawn)
        after: dict[Tokens, Floats] = {}
        for text, (_, mass) in texts.items():
            if text and text[:-1] not in after:
                continue
            chance = float(after[text[:-1]][text[-1]]) if text else 1.0
            if len(text) == shape.depth or chance == 0.0:
                continue  # a way too unlikely for float64 has no weight
            way = [drawn.q[texts[text[:i]][0]] for i in range(len(text) + 1)]
            after[text] = _inclusion_probabilities(below, scheme, way, text)
            row = drawn.p[texts[text][0]]
            more = min(float(np.minimum(mass * row, after[text]).sum()), chance)
            levels[len(text)] += more / chance
        siblings = len(shape.children[ROOT])
        if scheme.replaced or siblings - scheme.certain(siblings) <= 1:
            levels[0] = min(levels[0], self._first(drawn))
        return levels


def walk_steps(
    rule: TreeVerifier, drafting: Drafting, drawn: DrawnTree, emitted: Sequence[int]
) -> list[tuple[float, bool]] | None:
    """Return for each node on a walk the chance to go on from it, and whether the walk did.

    By the closed form of the rule's step; None where there is none, or it takes too long.
    ``emitted``: all tokens of the call.
    """
    hits = rule.hits.get(drafting.scheme.name)
    if hits is None or rule.one_step is None or rule.slow:
        return None
    steps: list[tuple[float, bool]] = []
    node = ROOT
    for token in emitted:
        place = ROOT if node == ROOT else drawn.places[node]
        count = len(drafting.shape.children[place])
        if not count:
            break
        if _order_count(drafting.scheme, count, drawn.q[node + 1]) > MAX_ORDERS:
            return None
        chance = float(hits(drawn.p[node + 1], drawn.q[node + 1], count).sum())
        children = drawn.tree.shape.children[node]
        child = next((x for x in children if drawn.tree.tokens[x] == token), None)
        steps.append((min(max(chance, 0.0), 1.0), child is not None))
        if child is None:
            break
        node = child
    return steps


def _text_rows(drawn: DrawnTree) -> dict[Tokens, tuple[int, float]]:
    """Return each text in the tree with its first row, and the target's probability of it."""
    texts: dict[Tokens, tuple[int, float]] = {(): (0, 1.0)}
    tree = drawn.tree
    for node, token in enumerate(tree.tokens):
        text = tree.text(node)
        row, mass = texts[text[:-1]]
        texts.setdefault(text, (node + 1, mass * float(drawn.p[row][token])))
    return texts


def _subtree(shape: TreeShape, node: int = ROOT) -> Subtree:
    return tuple(sorted(_subtree(shape, child) for child in shape.children[node]))


def _has_countable_law(below: Subtree, scheme: Scheme, rows: Floats) -> bool:
    """Whether the probability that a text is in a tree is known, and fast to compute."""
    if scheme.replaced or not below:
        return True
    if len(set(below)) > 1:
        return False  # which sibling it is would count too
    return all(
        _order_count(scheme, len(below), row) <= MAX_ORDERS for row in rows
    ) and _has_countable_law(below[0], scheme, rows)


def _order_count(scheme: Scheme, k: int, row: Floats) -> int:
    """Return how many steps the law of k siblings takes on a row (V,)."""
    samples = 0 if scheme.replaced else k - scheme.certain(k)
    support = int(np.count_nonzero(row))
    steps: int = support ** max(samples - 2, 0)
    return steps


def _inclusion_probabilities(
    below: Subtree, scheme: Scheme, rows: Sequence[Floats], text: Tokens
) -> Floats:
    """Return Pr(``text`` and then x is in the tree) for each x, (V,), by the draft's rows."""
    if not below:
        return np.zeros_like(rows[0])
    if not text:
        if scheme.replaced:
            return _any_probability([(rows[0], len(below))])
        return scheme.included(rows[0], len(below))
    under = [
        (_inclusion_probabilities(child, scheme, rows[1:], text[1:]), count)
        for child, count in Counter(below).items()
    ]
    if scheme.replaced:
        return _any_probability([(rows[0][text[0]] * chance, count) for chance, count in under])
    ((inclusion, _),) = under
    return float(scheme.included(rows[0], len(below))[text[0]]) * inclusion


def _any_probability(chances: Sequence[tuple[Floats, int]]) -> Floats:
    """Return the probability that some independent event happens; each has a number of tries."""
    with np.errstate(divide="ignore"):  # of what is certain
        missed = sum(count * np.log1p(-np.minimum(chance, 1.0)) for chance, count in chances)
    # Deep ways are so unlikely that 1 - (1 - x)^k would be 0.
    probability: Floats = -np.expm1(missed)
    return probability


class TreeLaneVerifier(Protocol):
    """A rule for draft trees of one lane of requests; one with state keeps it between calls."""

    def reset(self) -> None:
        """Begin a new request."""

    def judge(self, tree: DraftTree, given: Mapping[str, Any], rng: np.random.Generator) -> Tokens:
        """Return the emitted tokens; ``given``: the arguments of the contract but the last."""
        ...


@dataclass(frozen=True)
class StatelessTreeVerifier:
    """A rule under the ``tree`` contract as a judge; it must return a way and one token more."""

    rule: Callable[..., Any]

    def reset(self) -> None:
        """Begin a new request, which a rule without state does not notice."""

    def judge(self, tree: DraftTree, given: Mapping[str, Any], rng: np.random.Generator) -> Tokens:
        """Return the emitted tokens; ``UsageError`` if they are no way and one token."""
        emitted = tuple(int(token) for token in self.rule(*given.values(), rng))
        if not emitted or all(tree.text(n) != emitted[:-1] for n in range(ROOT, len(tree.shape))):
            raise UsageError(
                f"the rule emitted {list(emitted)} on the tree {tree.drawn()}: expected a way from "
                "its root and one more token; audit it (simverify audit)"
            )
        return emitted


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """One call for one lane: its tree with the rows, and all tokens of its ``output``.

    ``way``: the nodes of the accepted tokens. ``block``: the outcome, with the rows before each of
    its tokens that count.
    """

    block: Block
    drawn: DrawnTree
    output: Tokens
    way: Tokens

    @classmethod
    def of(
        cls, place: tuple[int, int, bool], drawn: DrawnTree, output: Tokens, emitted: Tokens
    ) -> "TreeBlock":
        """Return the call; ``place``: its lane, its position there, whether a request begins."""
        way = drawn.tree.way_of(output[:-1])
        rows = [0, *(node + 1 for node in way)][: len(emitted)]
        block = Block(*place, drawn.p[rows], drawn.q[rows], (), len(output) - 1, emitted)
        return cls(block, drawn, output, way)


def tree_arguments(drawn: DrawnTree) -> dict[str, Any]:
    """Return fresh arguments of the ``tree`` contract by name; the generator comes after."""
    return {
        "target_probs": drawn.p.copy(),
        "draft_probs": drawn.q.copy(),
        "tokens": np.array(drawn.tree.tokens, dtype=np.int64),
        "parents": np.array(drawn.tree.shape.parents, dtype=np.int64),
    }


def decode_trees(
    pair: TransformerPair,
    job: Job,
    drafting: Drafting,
    make_judge: Callable[[], TreeLaneVerifier],
    observe: Callable[[TreeBlock], None] = lambda call: None,
    method: DraftMethod = PLAIN_DRAFTING,
) -> Clock:
    """Decode ``job``, whose ``gamma`` is the depth of the trees; hand every call to ``observe``.

    ``method`` makes the drafts; one that proposes a single token raises ``UsageError``.

    Trees of call c in lane r, and the coins of the rule, come from generators of their own: so
    rules see the same trees as long as their texts agree, and batches change no draw. Where a
    tree holds a text twice, its rows are the first one's. In the clock ``drafted`` counts levels.
    """
    batch = LaneBatch(pair, job, make_judge, method)
    clock = batch.clock
    while lanes := batch.lanes:
        batch.read_prompts()
        drafted = _draft_trees(pair, batch, drafting)
        read = time.perf_counter()
        # Node 0 of what a model is fed is the last token of the prefix, which it has not seen.
        logits = batch.target.grow(
            [[*a.for_target, *b.tree.tokens] for a, b in zip(lanes, drafted, strict=True)],
            [[ROOT, *(parent + 1 for parent in one.tree.shape.parents)] for one in drafted],
        )
        clock.score += time.perf_counter() - read
        calls = []
        for lane, heads, entry in zip(lanes, logits, drafted, strict=True):
            start = time.perf_counter()
            p = pair.sampling.rows(heads)[entry.firsts]
            drawn = DrawnTree(entry.tree, entry.places, p, entry.q)
            scored = time.perf_counter()
            rng = lane_generator(job.seed, ACCEPT, lane.number, batch.call)
            output = lane.judge.judge(entry.tree, tree_arguments(drawn), rng)
            clock.score += scored - start
            clock.verify += time.perf_counter() - scored
            place = lane.number, lane.emitted, lane.request == 0
            calls.append(TreeBlock.of(place, drawn, output, lane.cut(output)))
            observe(calls[-1])
        batch.target.keep([[0, *(node + 1 for node in call.way)] for call in calls])
        batch.advance(
            [call.block for call in calls],
            [call.output for call in calls],
            [[a.fed[node] for node in b.way] for a, b in zip(drafted, calls, strict=True)],
        )
    return clock


@dataclass(frozen=True, eq=False)
class _DraftedTree:
    """A tree with its draft's rows ``q`` (n+1, V); ``places`` as of :class:`DrawnTree`.

    ``fed``: the number of each node among those that the drafter got. ``firsts``: for row 0 and
    each node the first row of the same text.
    """

    tree: DraftTree
    places: tuple[int, ...]
    q: Floats
    fed: list[int]

    @property
    def firsts(self) -> list[int]:
        texts = [self.tree.text(node) for node in range(ROOT, len(self.tree.shape))]
        return [texts.index(text) for text in texts]


def _draft_trees(pair: TransformerPair, batch: LaneBatch, drafting: Drafting) -> list[_DraftedTree]:
    """Draft a tree for each lane, level by level."""
    depths, lanes, draft = drafting.shape.depths, batch.lanes, batch.draft
    growing = [GrowingTree(drafting) for _ in lanes]
    rngs = [lane_generator(batch.job.seed, DRAFT, lane.number, batch.call) for lane in lanes]
    rows: list[dict[Tokens, Floats]] = [{} for _ in lanes]
    fed: list[dict[int, int]] = [{ROOT: ROOT} for _ in lanes]
    parents, level = drafting.shape.parents, [[ROOT] for _ in lanes]
    start = time.perf_counter()
    logits = list(draft.begin([lane.for_draft for lane in lanes])[:, None])
    for depth in range(drafting.shape.depth + 1):
        for i, (grown, nodes) in enumerate(zip(growing, level, strict=True)):
            fed[i] |= {node: len(fed[i]) - 1 + k for k, node in enumerate(nodes) if node != ROOT}
            for node, row in zip(nodes, pair.sampling.rows(logits[i]), strict=True):
                entry = rows[i].setdefault(grown.text[node], row)
                if drafting.shape.children[node]:
                    grown.grow(node, entry, rngs[i])
            level[i] = [node for node in grown.kept if depths[node] == depth + 1]
        if not any(level):
            break  # the last level was for the rules' last rows, and is no part of drafting
        now = time.perf_counter()
        batch.clock.draft += now - start
        start = now
        logits = draft.grow(
            [[grown.drawn[x] for x in nodes] for grown, nodes in zip(growing, level, strict=True)],
            [[number[parents[x]] for x in nodes] for number, nodes in zip(fed, level, strict=True)],
        )
    results = []
    for i, grown in enumerate(growing):
        tree = grown.tree()
        q = np.stack([rows[i][tree.text(node)] for node in range(ROOT, len(tree.shape))])
        places = tuple(grown.kept)
        results.append(_DraftedTree(tree, places, q, [fed[i][node] for node in places]))
    return results


# The record of a decoding run on draft trees: sums, no rows.


OPTIMUM_PART, COUPLING_PART, RULE_PART = range(3)
"""Parts of the record of each call: bounds on Pr(tau >= l) without state, those of any rule,
and the rule's own probabilities by the rows of the tree."""


@dataclass(frozen=True, eq=False)
class DecodedTrees(DecodedRun):
    """A run on draft trees; the parts of ``worth`` are ``OPTIMUM_PART`` to ``RULE_PART``.

    ``nodes`` int64 (nodes,): how often the way kept went through each node of the shape.
    ``known``: whether ``RULE_PART`` is; ``stepped``: whether the rule's steps are. ``went`` bool
    (n,), ``chances`` float64 (n,): for the first nodes of each lane, whether its rule went on, and
    the probability that it should.
    """

    nodes: Ints
    known: bool
    stepped: bool
    went: npt.NDArray[np.bool_]
    chances: Floats


def min_inner_nodes(shape: TreeShape, tokens: int) -> int:
    """Return how many nodes with children a lane visits at least, until it emitted ``tokens``.

    A call that emits m tokens visits m of them, or one less where it keeps a whole way.
    """
    shortest = min(d for node, d in enumerate(shape.depths) if not shape.children[node])
    return tokens * shortest // (shortest + 1)


class TreeEmissionObserver(RunObserver):
    """Observer of :func:`~simverify.simulators.decoding.trees.decode_trees`.

    ``nodes``: at how many first nodes of each lane the rule's step is judged. Fix it beforehand.
    """

    def __init__(
        self, lanes: int, seed: int, drafting: Drafting, rule: TreeVerifier, nodes: int
    ) -> None:
        super().__init__(drafting.shape.depth, lanes, seed, parts=3, one_draft=False)
        self._drafting, self._rule, self._nodes = drafting, rule, nodes
        self._best = TreeExpectation(drafting)
        self._kept: Ints = np.zeros(len(drafting.shape), np.int64)
        self._steps: list[list[tuple[float, bool]]] = [[] for _ in range(lanes)]
        self._stepped = self._known = True

    def __call__(self, call: TreeBlock) -> None:
        """Count a call."""
        for node in call.way:
            self._kept[call.drawn.places[node]] += 1
        steps = walk_steps(self._rule, self._drafting, call.drawn, call.output)
        if steps is None:
            self._stepped = False
        else:
            history = self._steps[call.block.lane]
            history += steps[: self._nodes - len(history)]
        expected = self._best.expected(self._rule, call.drawn)
        if expected is None:
            expected = np.zeros(len(self._accepted) - 1)
            expected[: len(steps or ())] = [chance for chance, _ in steps or ()]
            self._known &= steps is not None
        self._count(call.block, *self._best.levels(call.drawn), expected)

    @property
    def decoded(self) -> DecodedTrees:
        """The run so far."""
        steps = [step for history in self._steps for step in history]
        return DecodedTrees(
            self.features,
            self._accepted,
            self._worth,
            nodes=self._kept,
            known=self._known,
            stepped=self._stepped,
            went=np.array([went for _, went in steps], np.bool_),
            chances=np.array([chance for chance, _ in steps], np.float64),
        )

"""Speculative decoding of real models by rules for draft trees, batched.

Lanes, requests and what is cut are those of :mod:`~simverify.simulators.decoding.loop`. The
draft is called once a level, the target once a tree: each node sees its own path from the root
alone, by a mask, as in engines (SpecInfer, 2023).
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.simulators.decoding.job import TokenSums
from simverify.simulators.decoding.loop import (
    PLAIN_DRAFTING,
    RULES,
    Block,
    Clock,
    Interval,
    Job,
    Lane,
    LaneStatistics,
    block_curves,
    call_generator,
    feed_prompts,
    truncate_at_eos,
)
from simverify.simulators.exact.bounds import best_hit
from simverify.simulators.kernels.philox import DRAFT
from simverify.simulators.run import Features
from simverify.trees import ROOT, Drafting, DraftTree, GrowingTree, Scheme, TreeShape
from simverify.verifiers.trees import TreeVerifier

if TYPE_CHECKING:
    from simverify.drafting.texts import Drafter


# What a rule, and the best rule, accept in expectation on the trees that were drawn.
#
# On models whose rows nobody can list the law of trees is out of reach. Each drawn tree tells a
# part of it: means over calls are those of the laws at the prefixes that were visited.


Tokens = tuple[int, ...]

Subtree = tuple[Any, ...]
"""A shape by what lies below each child, in any order."""

MAX_ORDERS = 2_000
"""Most orders of the siblings but two that are drawn without replacement, for their law."""


@dataclass(frozen=True, eq=False)
class DrawnTree:
    """A tree with its rows ``p``, ``q`` float64 (n+1, V), after the prefix and after each node.

    ``places``: the node of the drafted shape that each node is; some may be missing.
    """

    tree: DraftTree
    places: tuple[int, ...]
    p: Floats
    q: Floats


@dataclass(frozen=True)
class TreeExpectation:
    """What rules can keep of trees by ``drafting``, tree by tree."""

    drafting: Drafting

    @cached_property
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
        # A law of many siblings without replacement takes too long to be had call by call.
        samples = counts[0] - scheme.certain(counts[0])
        if shape.depth == 1 and (scheme.replaced or samples <= 1):
            return "level"
        return "counted"

    def levels(self, drawn: DrawnTree) -> tuple[Floats, Floats]:
        """Return what bounds Pr(tau >= l), l = 1..depth, without state, and of any rule: (depth,).

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
        """Return the probabilities that ``rule`` keeps l tokens or more, given more than its steps.

        (depth,), where all rows of the tree tell them; None where they do not.
        """
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
                continue  # a way that is not to be had in float64 has no weight
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
    """Return of each node that a walk came by with what probability it was to go on, and did.

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
    """Whether the probability that a text is in a tree can be had, and fast."""
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
    under = {
        child: (_inclusion_probabilities(child, scheme, rows[1:], text[1:]), count)
        for child, count in Counter(below).items()
    }
    if scheme.replaced:
        return _any_probability(
            [(rows[0][text[0]] * found, count) for found, count in under.values()]
        )
    ((inclusion, _),) = under.values()
    chance = float(scheme.included(rows[0], len(below))[text[0]])
    return chance * inclusion


def _any_probability(chances: Sequence[tuple[Floats, int]]) -> Floats:
    """Return the probability that one of some independent events comes, each so many times."""
    with np.errstate(divide="ignore"):  # of what is certain
        missed = sum(count * np.log1p(-np.minimum(chance, 1.0)) for chance, count in chances)
    # Deep ways have next to none, of which 1 - (1 - x)^k would leave nothing.
    probability: Floats = -np.expm1(missed)
    return probability


class TreeLaneVerifier(Protocol):
    """A rule for draft trees of one lane of requests; one with state keeps it between calls."""

    def reset(self) -> None:
        """Begin a new request."""
        ...

    def judge(self, tree: DraftTree, given: Mapping[str, Any], rng: np.random.Generator) -> Tokens:
        """Return the emitted tokens; ``given``: the arguments of the contract but the last."""
        ...


class StatelessTreeVerifier:
    """A rule under the ``tree`` contract as a judge; it must return a way and one token more."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self._rule = rule

    def reset(self) -> None:
        """Begin a new request, which a rule without state does not notice."""

    def judge(self, tree: DraftTree, given: Mapping[str, Any], rng: np.random.Generator) -> Tokens:
        """Return the emitted tokens; ``UsageError`` for those of no way."""
        emitted = tuple(int(token) for token in self._rule(*given.values(), rng))
        if not emitted or all(tree.text(n) != emitted[:-1] for n in range(ROOT, len(tree.shape))):
            raise UsageError(
                f"the rule emitted {list(emitted)} on the tree {tree.drawn()}: expected a way from "
                "its root and one more token; audit it (simverify audit)"
            )
        return emitted


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """One call for one lane: its tree with the rows, and all tokens that were ``found``.

    ``way``: the nodes of the tree that they go by.
    ``block``: what came of it, with the rows before each of its tokens that count.
    """

    block: Block
    drawn: DrawnTree
    found: Tokens
    way: Tokens


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
    observe: Callable[[TreeBlock], None] = lambda found: None,
    method: DraftMethod = PLAIN_DRAFTING,
) -> Clock:
    """Decode ``job``, whose ``gamma`` is the depth of the trees; hand every call to ``observe``.

    Drafts are made by ``method``; one that knows one token alone raises ``UsageError``.

    Trees of call c in lane r, and the coins of the rule, come from generators of their own: so
    rules see the same trees as long as their texts agree, and batches change no draw. Where a
    tree holds a text twice, its rows are the first one's. In the clock ``drafted`` counts levels.
    """
    clock = Clock()
    lanes = [Lane(r, job.prompts, None, r, job.lanes) for r in range(job.lanes)]
    judges = [make_judge() for _ in lanes]
    target = pair.cached(pair.target_model, job.lanes)
    draft = method.make(pair, job.lanes)
    for lane in lanes:
        lane.begin()
    call = 0
    while lanes:
        feed_prompts(lanes, clock, target, draft)
        drafted = _draft_trees(pair, draft, lanes, drafting, (job.seed, call), clock)
        looked = time.perf_counter()
        # Node 0 of what a model is fed is the last token of the prefix, which it has not seen.
        logits = target.grow(
            [[*a.for_target, *b.tree.tokens] for a, b in zip(lanes, drafted, strict=True)],
            [[ROOT, *(parent + 1 for parent in own.tree.shape.parents)] for own in drafted],
        )
        clock.score += time.perf_counter() - looked
        ways, founds, blocks = [], [], []
        for lane, heads, entry in zip(lanes, logits, drafted, strict=True):
            start = time.perf_counter()
            p = pair.sampling.rows(heads)[entry.firsts]
            drawn = DrawnTree(entry.tree, entry.places, p, entry.q)
            scored = time.perf_counter()
            rng, judge = call_generator(job.seed, lane.number, call), judges[lane.number]
            if lane.request == 0:
                judge.reset()
            output = judge.judge(entry.tree, tree_arguments(drawn), rng)
            clock.score += scored - start
            clock.verify += time.perf_counter() - scored
            way = entry.tree.way_of(output[:-1])
            emitted = truncate_at_eos(
                list(output),
                min(job.lane_tokens - lane.emitted, job.request_tokens - lane.request),
                pair.eos,
            )
            rows = [node + 1 for node in (ROOT, *way)][: len(emitted)]
            blocks.append(
                Block(
                    lane.number,
                    lane.emitted,
                    lane.request == 0,
                    p[rows],
                    entry.q[rows],
                    (),
                    len(output) - 1,
                    emitted,
                )
            )
            observe(TreeBlock(blocks[-1], drawn, output, way))
            ways.append(way)
            founds.append(output)
        clock.calls += len(lanes)
        clock.rounds += 1
        clock.drafted += job.gamma * len(lanes)
        clock.tokens += sum(len(block.emitted) for block in blocks)
        target.keep([[0, *(node + 1 for node in way)] for way in ways])
        draft.accept([[a.fed[node] for node in way] for a, way in zip(drafted, ways, strict=True)])
        ended = [
            lane.advance(block.emitted, found[-1], job, pair.eos)
            for lane, block, found in zip(lanes, blocks, founds, strict=True)
        ]
        going = [i for i, lane in enumerate(lanes) if lane.emitted < job.lane_tokens]
        target.take_back(np.where(ended, target.lengths, 0).tolist())
        draft.end(ended)
        if len(going) < len(lanes) and going:
            target.select(going)
            draft.select(going)
        lanes = [lanes[i] for i in going]
        call += 1
    return clock


@dataclass(frozen=True, eq=False)
class _DraftedTree:
    """A tree with its draft's rows ``q`` (n+1, V); ``places`` as of :class:`DrawnTree`.

    ``fed``: the number of each node among those that the drafter was told. ``firsts``: for row 0
    and each node the first row of the same text.
    """

    tree: DraftTree
    places: tuple[int, ...]
    q: Floats
    fed: list[int]

    @property
    def firsts(self) -> list[int]:
        texts = [self.tree.text(node) for node in range(ROOT, len(self.tree.shape))]
        return [texts.index(text) for text in texts]


def _draft_trees(
    pair: TransformerPair,
    draft: "Drafter",
    lanes: Sequence[Lane],
    drafting: Drafting,
    at: tuple[int, int],
    clock: Clock,
) -> list[_DraftedTree]:
    """Draft a tree for each lane, level by level; ``at``: the seed of all draws, and the call."""
    depths, seed, call = drafting.shape.depths, *at
    growing = [GrowingTree(drafting) for _ in lanes]
    rngs = [
        np.random.Generator(np.random.Philox(key=[seed, DRAFT], counter=[0, 0, call, lane.number]))
        for lane in lanes
    ]
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
        clock.draft += now - start
        start = now
        logits = draft.grow(
            [
                [grown.drawn[node] for node in nodes]
                for grown, nodes in zip(growing, level, strict=True)
            ],
            [[own[parents[node]] for node in nodes] for own, nodes in zip(fed, level, strict=True)],
        )
    results = []
    for i, grown in enumerate(growing):
        tree = grown.tree()
        q = np.stack([rows[i][tree.text(node)] for node in range(ROOT, len(tree.shape))])
        places = tuple(grown.kept)
        results.append(_DraftedTree(tree, places, q, [fed[i][node] for node in places]))
    return results


# The record of a decoding run on draft trees: sums, no rows.


OPTIMUM_PART, COUPLING_PART, RULE_PART, TAU_PART = range(4)
"""Parts of what is kept of each call: bounds on Pr(tau >= l) without state, those of any rule,
what the rule itself is to keep by the rows of the tree, tau."""


@dataclass(frozen=True, eq=False)
class DecodedTreeRun:
    """All that is judged of a rule's run.

    ``features``: of the emitted tokens. ``accepted``: int64 (depth+1,), how often tau was each
    value; ``nodes`` int64 (nodes,), how often the way kept went through each node of the shape.
    ``worth``: per lane, of each call the parts ``OPTIMUM_PART`` to ``TAU_PART``. ``known``: whether
    ``RULE_PART`` is; ``stepped``: whether the rule's steps are. ``went`` bool (n,), ``chances``
    float64 (n,): of the first nodes that each lane came by, whether its rule went on, and with what
    probability it was to.
    """

    features: Features
    accepted: Ints
    nodes: Ints
    worth: LaneStatistics
    known: bool
    stepped: bool
    went: npt.NDArray[np.bool_]
    chances: Floats

    @property
    def gamma(self) -> int:
        """Depth of the trees."""
        return len(self.accepted) - 1

    @property
    def tails(self) -> Ints:
        """Calls in which l tokens or more were kept, l = 1..depth."""
        tails: Ints = np.cumsum(self.accepted[::-1])[::-1][1:]
        return tails

    def interval(self, part: int, confidence: float, level: int | None = None) -> Interval:
        """Return the mean a call of a part, ``OPTIMUM_PART`` to ``TAU_PART``, with its interval.

        ``level``: of the probability of one level l = level + 1, alone.
        """
        weights = np.zeros(3 * self.gamma + 1)
        first = part * self.gamma
        weights[first : first + self.gamma] = 1.0
        if level is not None:
            weights[first : first + self.gamma] = np.arange(self.gamma) == level
        return self.worth.interval(weights, confidence)


def min_inner_nodes(shape: TreeShape, tokens: int) -> int:
    """Return how many nodes with children a lane comes by at least, until it emitted ``tokens``.

    A call that emits m tokens comes by m of them, or by one less where it keeps a whole way.
    """
    shortest = min(d for node, d in enumerate(shape.depths) if not shape.children[node])
    return tokens * shortest // (shortest + 1)


class TreeEmissionObserver:
    """Observer of :func:`~simverify.simulators.decoding.trees.decode_trees`.

    ``nodes``: so many first nodes that each lane comes by have the rule's step judged, a number
    to be fixed beforehand.
    """

    def __init__(
        self, lanes: int, seed: int, drafting: Drafting, rule: TreeVerifier, nodes: int
    ) -> None:
        gamma = drafting.shape.depth
        self._drafting, self._rule, self._nodes = drafting, rule, nodes
        self._best = TreeExpectation(drafting)
        self._tokens = TokenSums(gamma=gamma, lanes=lanes, seed=seed, one_draft=False)
        self._accepted: Ints = np.zeros(gamma + 1, np.int64)
        self._kept: Ints = np.zeros(len(drafting.shape), np.int64)
        self._worth = LaneStatistics(lanes, 3 * gamma + 1)
        self._steps: list[list[tuple[float, bool]]] = [[] for _ in range(lanes)]
        self._stepped = self._known = True

    def __call__(self, call: TreeBlock) -> None:
        """Count a call."""
        block = call.block
        self._accepted[block.tau] += 1
        for node in call.way:
            self._kept[call.drawn.places[node]] += 1
        steps = walk_steps(self._rule, self._drafting, call.drawn, call.found)
        if steps is None:
            self._stepped = False
        else:
            history = self._steps[block.lane]
            history += steps[: self._nodes - len(history)]
        expected = self._best.expected(self._rule, call.drawn)
        if expected is None:
            expected = np.zeros(len(self._accepted) - 1)
            expected[: len(steps or ())] = [chance for chance, _ in steps or ()]
            self._known &= steps is not None
        levels, of_any = self._best.levels(call.drawn)
        self._worth.add(block.lane, [*levels, *of_any, *expected, block.tau])
        self._tokens.add(block)

    def complete(self, call: TreeBlock) -> None:
        """Count the tokens of a call alone."""
        self._tokens.add(call.block)

    @property
    def decoded(self) -> DecodedTreeRun:
        """What there is so far."""
        steps = [step for own in self._steps for step in own]
        return DecodedTreeRun(
            features=self._tokens.features,
            accepted=self._accepted,
            nodes=self._kept,
            worth=self._worth,
            known=self._known,
            stepped=self._stepped,
            went=np.array([went for _, went in steps], np.bool_),
            chances=np.array([chance for chance, _ in steps], np.float64),
        )

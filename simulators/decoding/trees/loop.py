"""Speculative decoding of real models by rules for draft trees, batched.

Lanes, requests and what is cut are those of :mod:`~simverify.simulators.decoding.loop`. The
draft is called once a level, the target once a tree: each node sees its own way from the root
alone, by a mask, as in engines (SpecInfer, 2023).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simverify.arrays import Floats
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.lanes import Block, Clock, Job, Lane
from simverify.simulators.decoding.loop import PLAIN, call_generator, cut, feed_prompts
from simverify.simulators.decoding.trees.worth import Drawn
from simverify.simulators.kernels.philox import DRAFT
from simverify.trees import ROOT, Drafting, DraftTree, Growing

if TYPE_CHECKING:
    from simverify.drafting.drafter import Drafter

Tokens = tuple[int, ...]


class TreeJudge(Protocol):
    """A rule for draft trees of one lane of requests; one with state keeps it between calls."""

    def reset(self) -> None:
        """Begin a new request."""
        ...

    def judge(self, tree: DraftTree, given: Mapping[str, Any], rng: np.random.Generator) -> Tokens:
        """Return the emitted tokens; ``given``: the arguments of the contract but the last."""
        ...


class RuleOfTrees:
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
    drawn: Drawn
    found: Tokens
    way: Tokens


def arguments(drawn: Drawn) -> dict[str, Any]:
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
    make_judge: Callable[[], TreeJudge],
    observe: Callable[[TreeBlock], None] = lambda found: None,
    method: DraftMethod = PLAIN,
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
        drafted = _draft(pair, draft, lanes, drafting, (job.seed, call), clock)
        looked = time.perf_counter()
        # Node 0 of what a model is fed is the last token of the prefix, which it has not seen.
        logits = target.grow(
            [[*a.for_target, *b.tree.tokens] for a, b in zip(lanes, drafted, strict=True)],
            [[ROOT, *(parent + 1 for parent in own.tree.shape.parents)] for own in drafted],
        )
        clock.score += time.perf_counter() - looked
        ways, founds, blocks = [], [], []
        for lane, heads, own in zip(lanes, logits, drafted, strict=True):
            begun = time.perf_counter()
            p = pair.sampling.rows(heads)[own.firsts]
            drawn = Drawn(own.tree, own.places, p, own.q)
            scored = time.perf_counter()
            rng, judge = call_generator(job.seed, lane.number, call), judges[lane.number]
            if lane.request == 0:
                judge.reset()
            found = judge.judge(own.tree, arguments(drawn), rng)
            clock.score += scored - begun
            clock.verify += time.perf_counter() - scored
            way = own.tree.way_of(found[:-1])
            emitted = cut(
                list(found),
                min(job.lane_tokens - lane.emitted, job.request_tokens - lane.request),
                pair.eos,
            )
            rows = [node + 1 for node in (ROOT, *way)][: len(emitted)]
            blocks.append(
                Block(
                    lane.number, lane.emitted, lane.request == 0, p[rows], own.q[rows], (),
                    len(found) - 1, emitted,
                )
            )  # fmt: skip
            observe(TreeBlock(blocks[-1], drawn, found, way))
            ways.append(way)
            founds.append(found)
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
class _Drafted:
    """A tree with its draft's rows ``q`` (n+1, V); ``places`` as of :class:`Drawn`.

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


def _draft(
    pair: TransformerPair,
    draft: "Drafter",
    lanes: Sequence[Lane],
    drafting: Drafting,
    at: tuple[int, int],
    clock: Clock,
) -> list[_Drafted]:
    """Draft a tree for each lane, level by level; ``at``: the seed of all draws, and the call."""
    depths, seed, call = drafting.shape.depths, *at
    growing = [Growing(drafting) for _ in lanes]
    rngs = [
        np.random.Generator(
            np.random.Philox(key=[seed, DRAFT], counter=[0, 0, call, lane.number])
        )
        for lane in lanes
    ]  # fmt: skip
    rows: list[dict[Tokens, Floats]] = [{} for _ in lanes]
    fed: list[dict[int, int]] = [{ROOT: ROOT} for _ in lanes]
    parents, level = drafting.shape.parents, [[ROOT] for _ in lanes]
    begun = time.perf_counter()
    logits = list(draft.begin([lane.for_draft for lane in lanes])[:, None])
    for depth in range(drafting.shape.depth + 1):
        for i, (grown, nodes) in enumerate(zip(growing, level, strict=True)):
            fed[i] |= {node: len(fed[i]) - 1 + k for k, node in enumerate(nodes) if node != ROOT}
            for node, row in zip(nodes, pair.sampling.rows(logits[i]), strict=True):
                own = rows[i].setdefault(grown.text[node], row)
                if drafting.shape.children[node]:
                    grown.grow(node, own, rngs[i])
            level[i] = [node for node in grown.kept if depths[node] == depth + 1]
        if not any(level):
            break  # the last level was for the rules' last rows, and is no part of drafting
        now = time.perf_counter()
        clock.draft += now - begun
        begun = now
        logits = draft.grow(
            [
                [grown.drawn[node] for node in nodes]
                for grown, nodes in zip(growing, level, strict=True)
            ],
            [[own[parents[node]] for node in nodes] for own, nodes in zip(fed, level, strict=True)],
        )
    found = []
    for i, grown in enumerate(growing):
        tree = grown.tree()
        q = np.stack([rows[i][tree.text(node)] for node in range(ROOT, len(tree.shape))])
        places = tuple(grown.kept)
        found.append(_Drafted(tree, places, q, [fed[i][node] for node in places]))
    return found

"""What drawn trees let expect of a rule, and of the best one, by the rows along their ways.

On models whose rows nobody can list the law of trees is out of reach, but each drawn tree tells
a part of it: means over calls are those of the laws at the prefixes that were visited.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from simverify.arrays import Floats
from simverify.simulators.decoding.expected import RULES, curves
from simverify.simulators.decoding.lanes import Block
from simverify.simulators.exact.one_step import best_hit
from simverify.trees import ROOT, Drafting, DraftTree, Scheme, TreeShape
from simverify.verifiers.trees import TreeVerifier

Tokens = tuple[int, ...]

Below = tuple[Any, ...]
"""A shape by what lies below each child, in any order."""

MAX_ORDERS = 2_000
"""Most orders of the siblings but two that are drawn without replacement, for their law."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A tree with its rows ``p``, ``q`` float64 (n+1, V), after the prefix and after each node.

    ``places``: the node of the drafted shape that each node is; some may be missing.
    """

    tree: DraftTree
    places: tuple[int, ...]
    p: Floats
    q: Floats


@dataclass(frozen=True)
class TreeWorth:
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

    def levels(self, drawn: Drawn) -> tuple[Floats, Floats]:
        """Return what bounds Pr(tau >= l), l = 1..depth, without state, and of any rule: (depth,).

        Their means over trees that were drafted at one prefix bound those probabilities there;
        in closed form they are those of the best rule.
        """
        if self._kind == "chain":
            found = curves(Block(0, 0, True, drawn.p, drawn.q, drawn.tree.tokens, 0, ()))
            return found[RULES.index("block")], found[RULES.index("greedy")]
        if self._kind == "certain":
            levels = self._of_target(drawn)
        elif self._kind == "level":
            levels = np.array([self._first(drawn)])
        else:
            levels = self._counted(drawn)
        return levels, levels

    def expected(self, rule: TreeVerifier, drawn: Drawn) -> Floats | None:
        """Return the probabilities that ``rule`` keeps l tokens or more, given more than its steps.

        (depth,), where all rows of the tree tell them; None where they do not.
        """
        if rule.by_target:
            return self._of_target(drawn)
        if self._kind == "chain" and rule.block_on_chain:
            return self.levels(drawn)[0]
        return None

    def _of_target(self, drawn: Drawn) -> Floats:
        levels = np.zeros(self.drafting.shape.depth)
        for text, (_, mass) in _texts(drawn).items():
            if text:
                levels[len(text) - 1] += mass
        return levels

    def _first(self, drawn: Drawn) -> float:
        shape, scheme = self.drafting.shape, self.drafting.scheme
        return float(best_hit(drawn.p[0], drawn.q[0], len(shape.children[ROOT]), scheme))

    def _counted(self, drawn: Drawn) -> Floats:
        """Bound each level by the target's own texts being in the tree.

        A rule keeps a text o with probability min(Pr(o), Pr(o is in the tree)) at most. The sum
        over all texts of a length is that over the ways of the tree, each by 1 / Pr(it is in
        the tree) (Horvitz and Thompson, 1952).
        """
        shape, scheme = self.drafting.shape, self.drafting.scheme
        below = _below(shape)
        if not _countable(below, scheme, drawn.q):
            return np.ones(shape.depth)
        levels, texts = np.zeros(shape.depth), _texts(drawn)
        after: dict[Tokens, Floats] = {}
        for text, (_, mass) in texts.items():
            if text and text[:-1] not in after:
                continue
            here = float(after[text[:-1]][text[-1]]) if text else 1.0
            if len(text) == shape.depth or here == 0.0:
                continue  # a way that is not to be had in float64 has no weight
            way = [drawn.q[texts[text[:i]][0]] for i in range(len(text) + 1)]
            after[text] = _inside(below, scheme, way, text)
            row = drawn.p[texts[text][0]]
            more = min(float(np.minimum(mass * row, after[text]).sum()), here)
            levels[len(text)] += more / here
        siblings = len(shape.children[ROOT])
        if scheme.replaced or siblings - scheme.certain(siblings) <= 1:
            levels[0] = min(levels[0], self._first(drawn))
        return levels


def steps_of(
    rule: TreeVerifier, drafting: Drafting, drawn: Drawn, emitted: Sequence[int]
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
        if _orders(drafting.scheme, count, drawn.q[node + 1]) > MAX_ORDERS:
            return None
        chance = float(hits(drawn.p[node + 1], drawn.q[node + 1], count).sum())
        children = drawn.tree.shape.children[node]
        child = next((x for x in children if drawn.tree.tokens[x] == token), None)
        steps.append((min(max(chance, 0.0), 1.0), child is not None))
        if child is None:
            break
        node = child
    return steps


def _texts(drawn: Drawn) -> dict[Tokens, tuple[int, float]]:
    """Return each text in the tree with its first row, and the target's probability of it."""
    found: dict[Tokens, tuple[int, float]] = {(): (0, 1.0)}
    tree = drawn.tree
    for node, token in enumerate(tree.tokens):
        text = tree.text(node)
        row, mass = found[text[:-1]]
        found.setdefault(text, (node + 1, mass * float(drawn.p[row][token])))
    return found


def _below(shape: TreeShape, node: int = ROOT) -> Below:
    return tuple(sorted(_below(shape, child) for child in shape.children[node]))


def _countable(below: Below, scheme: Scheme, rows: Floats) -> bool:
    """Whether the probability that a text is in a tree can be had, and fast."""
    if scheme.replaced or not below:
        return True
    if len(set(below)) > 1:
        return False  # which sibling it is would count too
    return all(_orders(scheme, len(below), row) <= MAX_ORDERS for row in rows) and _countable(
        below[0], scheme, rows
    )


def _orders(scheme: Scheme, k: int, row: Floats) -> int:
    """Return how many steps the law of k siblings takes on a row (V,)."""
    samples = 0 if scheme.replaced else k - scheme.certain(k)
    support = int(np.count_nonzero(row))
    steps: int = support ** max(samples - 2, 0)
    return steps


def _inside(below: Below, scheme: Scheme, rows: Sequence[Floats], text: Tokens) -> Floats:
    """Return Pr(``text`` and then x is in the tree) for each x, (V,), by the draft's rows."""
    if not below:
        return np.zeros_like(rows[0])
    if not text:
        if scheme.replaced:
            return _any([(rows[0], len(below))])
        return scheme.included(rows[0], len(below))
    under = {
        child: (_inside(child, scheme, rows[1:], text[1:]), count)
        for child, count in Counter(below).items()
    }
    if scheme.replaced:
        return _any([(rows[0][text[0]] * found, count) for found, count in under.values()])
    ((found, _),) = under.values()
    chance = float(scheme.included(rows[0], len(below))[text[0]])
    return chance * found


def _any(chances: Sequence[tuple[Floats, int]]) -> Floats:
    """Return the probability that one of some independent events comes, each so many times."""
    with np.errstate(divide="ignore"):  # of what is certain
        missed = sum(count * np.log1p(-np.minimum(chance, 1.0)) for chance, count in chances)
    # Deep ways have next to none, of which 1 - (1 - x)^k would leave nothing.
    found: Floats = -np.expm1(missed)
    return found

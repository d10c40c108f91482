"""The law of a rule that walks down the tree, a step at a time.

What lies below a node was drafted without regard to its siblings, so the mass that reaches the
states of the next level obeys a linear recursion: the work grows with the nodes, whatever the
tree. Where a step's law is a closed form, it is that of a hit among all siblings; subtrees of one
form are then taken as one, and a tree whose siblings have subtrees of different forms needs the
law of which sibling it was, which small vocabularies allow to write out.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simverify.comparing.trees.rows import Array, StateRows
from simverify.symbolic.enumeration.paths import Coins, explore
from simverify.trees import ROOT, Drafting, Scheme, TreeShape
from simverify.verifiers.trees import TreeVerifier

MAX_STEPS = 20_000
"""Work limit for steps that are written out: ordered siblings times tokens, over all rows."""

MAX_CLOSED = 200_000
"""Work limit for closed forms that list rejected siblings: V^(k-1) for each row."""


@dataclass(frozen=True, eq=False)
class StepLaw:
    """``hits`` (k, V): Pr(token y, and sibling j is the first that has it); ``misses`` (V,)."""

    hits: Array
    misses: Array


@dataclass(frozen=True, eq=False)
class Walk:
    """``curve``: Pr(tau >= l) for each level l; ``nodes``: mass of the way kept, or None.

    ``deviation``, ``tv``: the largest that the law of a step which is taken has from the
    target's row, where the steps were written out.
    """

    curve: list[Any]
    nodes: list[Any] | None
    deviation: Any = None
    tv: Any = None


def written_out(rule: TreeVerifier, drafting: Drafting, rows: StateRows) -> Walk | None:
    """Return the law of ``rule`` from every step's, or None: too many, or not such a rule."""
    shape = drafting.shape
    if rule.one_step is None or _listed(shape, rows) > MAX_STEPS:
        return None
    steps = {
        k: [_step(rule, drafting.scheme, p, q, k) for p, q in zip(rows.target, rows.draft)]  # noqa: B905
        for k in _counts(shape)
    }
    mass: dict[int, Array] = {ROOT: rows.start()}
    for node, children in shape.children.items():
        for place, child in enumerate(children):
            found = [step.hits[place] for step in steps[len(children)]]
            mass[child] = rows.by_state(_onwards(mass[node], found))
    nodes = [mass[node].sum() for node in range(len(shape))]
    curve = [
        sum(nodes[node] for node in range(len(shape)) if shape.depths[node] == level)
        for level in range(1, shape.depth + 1)
    ]
    gaps = [
        abs(steps[k][state].hits.sum(axis=0) + steps[k][state].misses - rows.target[state])
        for k, state in _reached(shape, mass)
    ]
    return Walk(curve, nodes, max(gap.max() for gap in gaps), max(gap.sum() for gap in gaps) / 2)


def closed_form(rule: TreeVerifier, drafting: Drafting, rows: StateRows) -> Walk | None:
    """Return the law of ``rule`` from the closed form of a hit, or None where there is none."""
    shape, scheme = drafting.shape, drafting.scheme
    hits = rule.hits.get(scheme.name)
    most = max(_counts(shape))
    tried = 1 if scheme.replaced else rows.vocab_size ** (most - scheme.certain(most) - 1)
    forms = Forms(shape)
    if hits is None or not forms.alike or tried * len(rows.target) > MAX_CLOSED:
        return None
    found = {
        k: [hits(p, q, k) for p, q in zip(rows.target, rows.draft, strict=True)]
        for k in _counts(shape)
    }
    level: dict[int, Array] = {forms.of[ROOT]: rows.start()}
    curve: list[Any] = []
    while True:
        below: dict[int, Array] = defaultdict(rows.start().__mul__(0).copy)
        for form, mass in level.items():
            if children := forms.children[form]:
                step = rows.by_state(_onwards(mass, found[len(children)]))
                below[children[0]] = below[children[0]] + step
        if not below:
            return Walk(curve, None)
        curve.append(sum(mass.sum() for mass in below.values()))
        level = below


@dataclass(frozen=True, eq=False)
class Forms:
    """The subtrees of a shape that are alike: ``of`` each node, and ``children`` of each form."""

    shape: TreeShape

    @cached_property
    def _found(self) -> tuple[dict[int, int], list[tuple[int, ...]]]:
        of: dict[int, int] = {}
        numbers: dict[tuple[int, ...], int] = {}
        for node in reversed(range(ROOT, len(self.shape))):
            form = tuple(of[child] for child in self.shape.children[node])
            of[node] = numbers.setdefault(form, len(numbers))
        return of, list(numbers)

    @property
    def of(self) -> dict[int, int]:
        """The form of the subtree below each node."""
        return self._found[0]

    @property
    def children(self) -> list[tuple[int, ...]]:
        """The forms of the children of each form."""
        return self._found[1]

    @property
    def alike(self) -> bool:
        """Whether all children of a node have subtrees of one form."""
        return all(len(set(children)) <= 1 for children in self.children)


def _reached(shape: TreeShape, mass: dict[int, Array]) -> set[tuple[int, int]]:
    """Return the steps that are taken: numbers of children, and the states before them."""
    return {
        (len(children), int(state))
        for node, children in shape.children.items()
        if children
        for state in np.flatnonzero(mass[node])
    }


def _step(rule: TreeVerifier, scheme: Scheme, p: Array, q: Array, k: int) -> StepLaw:
    assert rule.one_step is not None
    one_step = rule.one_step
    hits, misses = np.array([0 * p] * k), 0 * p
    for siblings, mass in scheme.law(q, k).items():
        drafted = list(siblings)
        for token, weight in explore(
            lambda path, drafted=drafted: one_step(p, q, drafted, Coins(path))  # type: ignore[misc]
        ):
            if token in siblings:
                hits[siblings.index(token), token] += mass * weight
            else:
                misses[token] += mass * weight
    return StepLaw(hits, misses)


def _onwards(mass: Array, hits: list[Array]) -> Array:
    """Return the mass (V,) of the tokens that are hit, from that of the rows (S+1,) before."""
    found = 0 * hits[0]
    for weight, each in zip(mass, hits, strict=True):
        if weight > 0:
            found = found + weight * each
    return found


def _counts(shape: TreeShape) -> list[int]:
    """Return the numbers of children that nodes of ``shape`` have."""
    return sorted({len(children) for children in shape.children.values()} - {0})


def _listed(shape: TreeShape, rows: StateRows) -> int:
    size = rows.vocab_size
    return sum(len(rows.target) * size ** (k + 1) for k in _counts(shape))

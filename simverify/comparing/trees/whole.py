"""The law of a readable rule over all trees that can be drafted and all of its coins."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.arrays import Ints
from simverify.comparing.trees.rows import StateRows
from simverify.symbolic.enumeration.paths import Coins, TooManyPaths, explore
from simverify.trees import ROOT, Drafting, DraftTree, law_of_trees
from simverify.verifiers.trees import TreeVerifier

MAX_TREES = 2_000
MAX_WALKED_TREES = 100
"""Of a rule that walks; beyond, its steps say the same (``walk``)."""

MAX_NODES = 64
"""Of trees that are drawn one by one."""

MAX_PATHS = 12_000
"""Most paths of a rule, trees and coins together: a second, or a few where a step is slow."""

MAX_OUTPUTS = 4_096
"""Most completed outputs V^(depth+1) that are compared with the target's."""

Text = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class WholeLaw:
    """``curve``: Pr(tau >= l) for each level; ``nodes``: Pr(the way kept goes through it).

    ``deviation``, ``tv``: of the completed outputs of a call from the target's.
    """

    curve: list[Any]
    nodes: list[Any]
    deviation: Any
    tv: Any


def whole_law(rule: TreeVerifier, drafting: Drafting, rows: StateRows) -> WholeLaw | None:
    """Run ``rule`` on every tree and every path of its choices; None where there are too many."""
    depth = drafting.shape.depth
    if rows.vocab_size ** (depth + 1) > MAX_OUTPUTS:
        return None
    most = MAX_TREES if rule.one_step is None else MAX_WALKED_TREES
    fewest = int((rows.draft > 0).sum(axis=1).min())
    if len(drafting.shape) > MAX_NODES or (
        drafting.scheme.replaced and fewest ** len(drafting.shape) > most
    ):
        return None
    target, draft = rows.after(rows.target), rows.after(rows.draft)
    try:
        trees = law_of_trees(drafting, draft, max_trees=most)
    except TooManyPaths:
        return None
    left = MAX_PATHS
    curve, nodes = [0] * depth, [0] * len(drafting.shape)
    law: dict[Text, Any] = {}
    for tree, mass in trees:
        probs = tree.rows(target), tree.rows(draft)
        arrays = _ints(tree.tokens), _ints(tree.shape.parents)
        try:
            paths = list(
                explore(
                    lambda path, rows=(*probs, *arrays): rule.rule(*rows, Coins(path)),  # type: ignore[misc]
                    max_paths=left,
                )
            )
        except TooManyPaths:
            return None
        left -= len(paths)
        place = places(drafting, tree, tuple(range(len(tree.tokens))))
        for emitted, weight in paths:
            text = tuple(map(int, emitted))
            law[text] = law.get(text, 0) + mass * weight
            for level, node in enumerate(tree.way_of(text[:-1])):
                curve[level] += mass * weight
                nodes[place[node]] += mass * weight
    return WholeLaw(curve, nodes, *_deviation(law, rows, depth))


def places(drafting: Drafting, tree: DraftTree, nodes: Text) -> Text:
    """Return which nodes of the asked shape the drafted ``nodes`` stand for.

    Where a row has too few tokens the last siblings are missing.
    """
    if len(tree.tokens) == len(drafting.shape):
        return nodes
    found = {ROOT: ROOT}
    for parent, children in tree.shape.children.items():
        if parent in found:
            asked = drafting.shape.children[found[parent]]
            found.update(zip(children, asked, strict=False))
    return tuple(found[node] for node in nodes)


def _deviation(law: dict[Text, Any], rows: StateRows, depth: int) -> tuple[Any, Any]:
    """Largest deviation of the outputs, completed with the target's own tokens, and their TV."""
    target = rows.after(rows.target)
    size = range(rows.vocab_size)
    completed: dict[Text, Any] = {}
    expected: dict[Text, Any] = {(): 1}
    for length in range(depth + 1):
        # What ended here goes on as the target does; what is longer comes later.
        for text in [text for text in law if len(text) == length]:
            completed[text] = completed.get(text, 0) + law[text]
        completed = _grown(completed, target, size)
        expected = _grown(expected, target, size)
    for text in [text for text in law if len(text) == depth + 1]:
        completed[text] = completed.get(text, 0) + law[text]
    texts = itertools.product(size, repeat=depth + 1)
    gaps = [abs(completed.get(text, 0) - expected.get(text, 0)) for text in texts]
    return max(gaps), sum(gaps) / 2


def _grown(law: dict[Text, Any], target: Any, size: range) -> dict[Text, Any]:
    rows = {text: target(text) for text in law}
    return {
        (*text, token): mass * rows[text][token]
        for text, mass in law.items()
        for token in size
        if rows[text][token] > 0
    }


def _ints(values: Text) -> Ints:
    return np.array(values, dtype=np.int64)

"""Exact laws of rules for draft trees, over all drafts and all coins, in fractions."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from support.oracles.oracle_laws import Law, completed, distance, target_law

from simverify.models.base import MarkovModel, Model
from simverify.symbolic.paths import ForkedGenerator, explore
from simverify.trees import ROOT, SCHEMES, Drafting, TreeShape, enumerate_trees
from simverify.verifiers.base import draw


@cache
def fraction_rows(model: MarkovModel) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return target and draft as functions of a prefix, which give arrays of fractions."""
    rational = model.rational
    assert rational is not None

    def after(start: Any, rows: Any) -> Callable[..., Any]:
        return lambda text: np.array(rows[text[-1] % len(rows)] if text else start, dtype=object)

    return (
        after(rational.target_start, rational.target_rows),
        after(rational.draft_start, rational.draft_rows),
    )


def tree_law(rule: Callable[..., Any], model: MarkovModel, shape: TreeShape, scheme: str) -> Law:
    """Law of the tokens of one call of ``rule`` after the empty prefix."""
    target, draft = fraction_rows(model)
    law: Law = {}
    for tree, mass in enumerate_trees(Drafting(shape, SCHEMES[scheme]), draft):
        p, q = tree.rows(target), tree.rows(draft)
        parents = tree.shape.parents
        for emitted, weight in explore(
            lambda path: tuple(rule(p, q, tree.tokens, parents, ForkedGenerator(path)))  # noqa: B023
        ):
            law[emitted] = law.get(emitted, 0) + mass * weight
    return law


def float_tree_law(rule: Callable[..., Any], model: Model, drafting: Drafting) -> Law:
    """Return the same law in floats, for any model: a hundred times faster."""
    law: Law = {}
    for tree, mass in enumerate_trees(drafting, model.draft):
        p, q = tree.rows(model.target), tree.rows(model.draft)
        parents = tree.shape.parents
        for emitted, weight in explore(
            lambda path: tuple(rule(p, q, tree.tokens, parents, ForkedGenerator(path)))  # noqa: B023
        ):
            law[emitted] = law.get(emitted, 0) + mass * weight
    return law


def walk_law(step: Callable[..., int], model: MarkovModel, drafting: Drafting) -> Law:
    """Return the same for a rule that takes ``step`` at each node, one node at a time.

    What lies below a node is drafted without regard to the rest, so its law is that of the node.
    """
    shape, scheme = drafting.shape, drafting.scheme

    @cache
    def below(node: int, last: int | None) -> Law:
        text = () if last is None else (last,)
        p, q = model.target(text), model.draft(text)
        children = shape.children[node]

        def emit(path: Any) -> tuple[tuple[int, ...], int]:
            coins = ForkedGenerator(path)
            drafted = scheme.draw(q, len(children), coins) if children else ()
            if not drafted:
                return drafted, draw(p, p, coins)
            return drafted, step(p, q, list(drafted), coins)

        law: Law = {}
        for (drafted, y), mass in explore(emit):
            rest = below(children[drafted.index(y)], y) if y in drafted else {(): 1}
            for tokens, weight in rest.items():
                law[y, *tokens] = law.get((y, *tokens), 0) + mass * weight
        return law

    return below(ROOT, None)


def tree_deviation(law: Law, model: MarkovModel, shape: TreeShape) -> Any:
    """TV of a call's tokens, completed with the target's own, from the target."""
    whole = completed(law, model, shape.depth)
    return distance(whole, target_law(model, shape.depth + 1))

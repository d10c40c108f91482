"""Exact laws of rules for draft trees, over all drafts and all coins, in fractions."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from support.oracles.oracle_laws import Law, completed, distance, target_law

from simverify.models.base import MarkovModel
from simverify.symbolic.enumeration.paths import Coins, explore
from simverify.trees import SCHEMES, Drafting, TreeShape, law_of_trees


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
    for tree, mass in law_of_trees(Drafting(shape, SCHEMES[scheme]), draft):
        p, q = tree.rows(target), tree.rows(draft)
        parents = tree.shape.parents
        for emitted, weight in explore(
            lambda path: tuple(rule(p, q, tree.tokens, parents, Coins(path)))  # noqa: B023
        ):
            law[emitted] = law.get(emitted, 0) + mass * weight
    return law


def tree_deviation(law: Law, model: MarkovModel, shape: TreeShape) -> Any:
    """TV of a call's tokens, completed with the target's own, from the target."""
    whole = completed(law, model, shape.depth)
    return distance(whole, target_law(model, shape.depth + 1))

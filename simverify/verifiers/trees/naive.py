"""Naive with siblings: the token rule on the first child; its residual may be another child.

References
----------
.. [1] Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023,
       algorithm 1, at each node of a tree whose other children only catch the residual.
"""

from typing import Any

from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier, walk_rule


def one_step(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Accept the first child with min(1, p/q); else draw from the residual (p - q)+."""
    x = siblings[0]
    # A token that the draft cannot emit is not accepted: 0/0 counts as 0.
    if q[x] > 0 and rng.random() < p[x] / q[x]:
        return x
    return draw(excess(p, q), p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return min(p, q), and of (p - q)+ what one of the k-1 other samples is."""
    residual = excess(p, q)
    found: Array = p - residual + residual * (1 - (1 - q) ** (k - 1))
    return found


NAIVE = TreeVerifier(
    name="naive",
    rule=walk_rule(one_step),
    schemes=("iid", "without-replacement"),
    summary="the token rule on the first child; a residual that is a child goes on there",
    citation="Leviathan et al. 2023, at each node",
    one_step=one_step,
    hits={"iid": hits},
    kernel="simverify.simulators.trees:NAIVE",
    tails="simverify.comparing.tree_bounds:naive_tails",
)

"""Traversal verification: from the leaves up, the leftmost leaf first.

References
----------
.. [1] Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025,
       arXiv:2505.12398. On a chain it is block verification.
"""

from collections.abc import Callable
from typing import Any

from simverify.trees import ROOT, TreeShape
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier, exclude_tokens, normalised


def _traversal_rule(replaced: bool) -> Callable[..., list[int]]:
    """Return the rule for siblings that are drawn with or without replacement."""

    def verify(
        target_probs: Array, draft_probs: Array, tokens: Any, parents: Any, rng: Any
    ) -> list[int]:
        shape = TreeShape(tuple(map(int, parents)))
        left = {node: list(children) for node, children in shape.children.items()}
        p_of = {node: target_probs[node + 1] for node in left}
        q_of = {node: draft_probs[node + 1] for node in left}
        weight: dict[int, Any] = {ROOT: 1}
        node = ROOT
        while True:
            # Down to the leftmost leaf, its weight being that of its parent times p/q, 1 at most.
            while left[node]:
                child = left[node][0]
                x, p, q = int(tokens[child]), p_of[node], q_of[node]
                weight[child] = min(1, weight[node] * p[x] / q[x]) if q[x] > 0 else 0
                node = child
            if node == ROOT or rng.random() < weight[node]:
                emitted = [int(tokens[n]) for n in shape.way(node)]
                return [*emitted, draw(p_of[node], target_probs[node + 1], rng)]
            # Rejected: it leaves its parent with a residual, and with less weight.
            x, node = int(tokens[node]), shape.parents[node]
            left[node].pop(0)
            residual = excess(weight[node] * p_of[node], q_of[node])
            room = residual.sum() + 1 - weight[node]
            weight[node] = residual.sum() / room if room > 0 else 1
            p_of[node] = normalised(residual, p_of[node])
            if not replaced:
                q_of[node] = exclude_tokens(q_of[node], [x])

    return verify


TRAVERSAL = TreeVerifier(
    name="traversal",
    rule=_traversal_rule(replaced=True),
    schemes=("iid",),
    summary="from the leaves up; block verification on a chain",
    citation="Weng et al. 2025",
    kernel="simverify.simulators.kernels.trees:TRAVERSAL",
    curve="simverify.comparing.tree_bounds:traversal_curve",
    tails="simverify.comparing.tree_bounds:traversal_tails",
    block_on_chain=True,
)

TRAVERSAL_WITHOUT = TreeVerifier(
    name="traversal-without-replacement",
    rule=_traversal_rule(replaced=False),
    schemes=("without-replacement",),
    summary="the same for siblings without replacement: q loses each rejected token",
    citation="Weng et al. 2025",
    kernel="simverify.simulators.kernels.trees:TRAVERSAL_WITHOUT",
    tails="simverify.comparing.tree_bounds:traversal_without_tails",
    block_on_chain=True,
)

"""SpecHub: two children, of which one is always the likeliest token, the hub.

References
----------
.. [1] Sun et al., "SpecHub: Provable Acceleration to Multi-Draft Speculative Decoding", 2024.
       The same law as greedy draft with two children.
"""

from typing import Any

from simverify.trees import TreeShape
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees import greedy_draft
from simverify.verifiers.trees.base import TreeVerifier, exclude_tokens, max_children, walk_rule


def one_step(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge the pair (x, hub), which has mass q(x), or (hub, x), the rest of what x has [1].

    As the first of a pair, x is accepted with min(1, p/q); as the second one against what is
    left of p. The mass that remains goes to the hub, as much of it as p has there.
    """
    hub = siblings[0]
    if len(siblings) == 1:
        # The draft's row has one token.
        return draw(p, p, rng)
    x = siblings[1]
    share = exclude_tokens(q, [hub])
    if q[x] > 0:
        as_second = excess(p, q)[x] / (share[x] - q[x])
        if rng.random() < (as_second if rng.random() < q[hub] else p[x] / q[x]):
            return x
    left = excess(p, share)
    left[hub] = p[hub]
    return draw(left, p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return those of greedy draft; a single child, the hub, is certain."""
    if k == 1:
        found = 0 * p
        hub = min(range(len(q)), key=lambda x: (-q[x], x))
        found[hub] = p[hub]
        return found
    return greedy_draft.hits(p, q, k)


def _supports_spechub(shape: TreeShape) -> bool:
    return max_children(shape) <= 2


SPECHUB = TreeVerifier(
    name="spechub",
    rule=walk_rule(one_step),
    schemes=("argmax-first",),
    summary="two children, one of them the likeliest token, which takes what is left",
    citation="Sun et al. 2024 (SpecHub)",
    one_step=one_step,
    hits={"argmax-first": hits},
    fits=_supports_spechub,
    needs="at most two children a node",
    kernel="simverify.simulators.trees:SPECHUB",
)

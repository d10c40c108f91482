"""Greedy draft: only the last child is tested, as a sample of q off the others.

Made for children of which all but the last are certain. Given the others, the last one of
children without replacement is such a sample too, and so is that of independent children
wherever it is another token than they are.

References
----------
.. [1] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", ICLR 2025, greedy
       multi-draft sampling. Optimal on its drafts.
"""

from typing import Any

from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier, exclude_tokens, walk_rule


def _last_child_law(p: Array, q: Array, certain: list[int]) -> tuple[Array, Array]:
    """Return the law of the last child, q off the certain ones, and what it leaves of p."""
    last = exclude_tokens(q, certain)
    left = excess(p, last)
    left[certain] = p[certain]
    return last, left


def one_step(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Accept the last child with min(1, p/q~); else draw from p on the certain and (p - q~)+."""
    x, certain = siblings[-1], siblings[:-1]
    last, left = _last_child_law(p, q, certain)
    if last[x] > 0:
        if rng.random() < p[x] / last[x]:
            return x
    else:
        # All are certain: the draft's row ended before the last place, or a token came twice.
        left = p
    return draw(left, p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return p on the k-1 likeliest of q, and min(p, q~) off them."""
    certain = sorted(range(len(q)), key=lambda x: (-q[x], x))[: k - 1]
    found = p - _last_child_law(p, q, certain)[1]
    found[certain] = p[certain]
    return found


GREEDY_DRAFT = TreeVerifier(
    name="greedy-draft",
    rule=walk_rule(one_step),
    schemes=("last-sampled", "without-replacement", "iid"),
    summary="the k-1 likeliest are certain, the last is tested against q off them",
    citation="Hu et al. 2025",
    one_step=one_step,
    hits={"last-sampled": hits},
    kernel="simverify.simulators.trees:GREEDY_DRAFT",
    tails="simverify.comparing.tree_bounds:greedy_draft_tails",
)

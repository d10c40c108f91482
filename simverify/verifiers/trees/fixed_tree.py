"""The walk on a fixed tree: one coin for all children of a node, laid along their p.

References
----------
.. [1] Li et al., "EAGLE-2", 2024, and target-only kernels for tree sampling: drafts are
       certain given the prefix, so q plays no part. Optimal among all rules for such trees.
"""

from typing import Any

from simverify.trees import SCHEMES
from simverify.verifiers.base import Array, draw
from simverify.verifiers.trees.base import TreeVerifier, walk_rule
from simverify.verifiers.trees.match import hits_by


def one_step(p: Array, q: Array | None, siblings: list[int], rng: Any) -> int:
    """Accept child j if the coin is below the p of the children up to j; else p off them."""
    coin, below = rng.random(), 0
    rest = p.copy()
    for x in siblings:
        below = below + p[x]
        if coin < below:
            return x
        rest[x] = 0
    return draw(rest, p, rng)


# What is emitted follows p, so the law of a hit is that of a match.
_SUPPORTED_SCHEMES = {name: scheme for name, scheme in SCHEMES.items() if not scheme.replaced}

FIXED_TREE = TreeVerifier(
    name="fixed-tree",
    rule=walk_rule(one_step),
    schemes=tuple(_SUPPORTED_SCHEMES),
    summary="one coin along the children's p; optimal where drafts are certain",
    citation="Li et al. 2024 (EAGLE-2)",
    one_step=one_step,
    hits={name: hits_by(scheme) for name, scheme in _SUPPORTED_SCHEMES.items()},
    kernel="simverify.simulators.trees:BY_TARGET",
    tails="simverify.comparing.tree_bounds:target_tails",
    by_target=True,
)

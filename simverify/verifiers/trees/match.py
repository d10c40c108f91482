"""Sample and match: the target draws its own token, and goes on while a child has it.

References
----------
.. [1] Miao et al., "SpecInfer", 2023, as naive sampling. Needs no q, and no scheme.
"""

from typing import Any

from simverify.trees import SCHEMES, Scheme
from simverify.verifiers.base import Array, draw
from simverify.verifiers.trees.base import Hits, TreeVerifier, walk_rule


def one_step(p: Array, q: Array | None, siblings: list[int], rng: Any) -> int:
    """Draw from the target's row."""
    return draw(p, p, rng)


def hits_by(scheme: Scheme) -> Hits:
    """Return the closed form p(y) times the probability that y is one of k siblings."""

    def hits(p: Array, q: Array, k: int) -> Array:
        found: Array = p * scheme.included(q, k)
        return found

    return hits


MATCH_TREE = TreeVerifier(
    name="match",
    rule=walk_rule(one_step),
    schemes=tuple(SCHEMES),
    summary="go on while a child agrees with the target's own sample; needs no q",
    citation="Miao et al. 2023",
    one_step=one_step,
    hits={name: hits_by(scheme) for name, scheme in SCHEMES.items()},
    kernel="simverify.simulators.trees:BY_TARGET",
    tails="simverify.comparing.tree_bounds:target_tails",
    by_target=True,
)

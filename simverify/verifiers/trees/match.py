"""Sample and match: the target draws its own token, and goes on while a child has it.

References
----------
.. [1] Miao et al., "SpecInfer", 2023, as naive sampling. Needs no q, and no scheme.
"""

from typing import Any

from simverify.trees import SCHEMES
from simverify.verifiers.base import Array, draw
from simverify.verifiers.trees.base import TreeVerifier, walking


def one_step(p: Array, q: Array | None, siblings: list[int], rng: Any) -> int:
    """Draw from the target's row."""
    return draw(p, p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return p(y) times the probability that y is one of k independent samples."""
    found: Array = p * (1 - (1 - q) ** k)
    return found


MATCH_TREE = TreeVerifier(
    name="match",
    rule=walking(one_step),
    schemes=tuple(SCHEMES),
    summary="go on while a child agrees with the target's own sample; needs no q",
    citation="Miao et al. 2023",
    one_step=one_step,
    hits={"iid": hits},
)

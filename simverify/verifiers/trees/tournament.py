"""Tournament: the best of the children by a fixed rank, then the token rule on its law.

References
----------
.. [1] Khisti et al., "Multi-Draft Speculative Sampling: Canonical Architectures and
       Theoretical Limits", ICLR 2025: importance-weighted selection of one draft, then
       single-draft speculative sampling. Any fixed rank is lossless.
"""

from typing import Any

import numpy as np

from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier, walk_rule


def order(p: Array, q: Array) -> list[int]:
    """Return the tokens from the worst to the best: by p - q^2, equal ones by id."""
    return sorted(range(len(p)), key=lambda x: (p[x] - q[x] * q[x], x))


def winner_law(p: Array, q: Array, k: int) -> Array:
    """Return the law (V,) of the best of k independent samples."""
    ranked = order(p, q)
    below = np.cumsum(q[ranked])
    law = q.copy()
    law[ranked] = below**k - (below - q[ranked]) ** k
    return law


def one_step(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Accept the best child with min(1, p/r), r the law of the best; else draw from (p - r)+."""
    law = winner_law(p, q, len(siblings))
    best = max(siblings, key=order(p, q).index)
    if law[best] > 0 and rng.random() < p[best] / law[best]:
        return best
    return draw(excess(p, law), p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return min(p, r), and of the residual what a child that lost is.

    The best is w and y another child with the probability that all k are w or worse, less
    that of none being w, less the same without y.
    """
    law = winner_law(p, q, k)
    residual = excess(p, law)
    found = p - residual
    total = residual.sum()
    if total == 0:
        return found
    ranked = order(p, q)
    below = np.cumsum(q[ranked])
    rejected = excess(law, p)
    for place, y in enumerate(ranked):
        for better in range(place + 1, len(ranked)):
            w = ranked[better]
            if rejected[w] == 0:
                continue
            upto, under = below[better], below[better] - q[w]
            both = law[w] - ((upto - q[y]) ** k - (under - q[y]) ** k)
            found[y] += residual[y] / total * rejected[w] / law[w] * both
    return found


TOURNAMENT = TreeVerifier(
    name="tournament",
    rule=walk_rule(one_step),
    schemes=("iid",),
    summary="the best child by p - q^2, then the token rule against the distribution of the best",
    citation="Khisti et al. 2025",
    one_step=one_step,
    hits={"iid": hits},
    kernel="simverify.simulators.trees:TOURNAMENT",
    slow=True,
)

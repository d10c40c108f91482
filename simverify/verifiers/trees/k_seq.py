"""K-SEQ: every child has the same chance, min(1, p/(rho q)), with rho as small as can be.

References
----------
.. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", 2023.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier, walk_rule

_BISECTION_STEPS = 60


def solve_rho(p: Array, q: Array, k: int) -> float:
    """Return the rho in [1, k] with 1 - (1 - beta)^k = rho beta, beta = sum min(q, p/rho) [1].

    Rounded up: the residual must not be negative, and any larger rho is lossless too.
    """
    p, q = p.astype(np.float64), q.astype(np.float64)
    low, high = 1.0, float(max(k, 1))
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        beta = np.minimum(q, p / middle).sum()
        if 1 - (1 - beta) ** k <= middle * beta:
            high = middle
        else:
            low = middle
    return high * (1 + 1e-14)


def accepted_shares(p: Array, q: Array, k: int) -> tuple[Any, Array]:
    """Return rho, and the law (V,) of what is accepted of k children, which sums to less than 1."""
    rho: Any = solve_rho(p, q, k)
    if p.dtype == object:
        rho = Fraction(rho)
    one = np.minimum(q, p / rho)
    beta = one.sum()
    if beta == 0:
        return rho, one
    return rho, one * ((1 - (1 - beta) ** k) / beta)


def one_step(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Accept each child with min(1, p/(rho q)); else draw from what is left of p."""
    rho, accepted = accepted_shares(p, q, len(siblings))
    for x in siblings:
        if q[x] > 0 and rng.random() < p[x] / (rho * q[x]):
            return x
    return draw(excess(p, accepted), p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return min(q, p/rho) p_acc / beta [1]; what was rejected has no residual."""
    return accepted_shares(p, q, k)[1]


K_SEQ = TreeVerifier(
    name="k-seq",
    rule=walk_rule(one_step),
    schemes=("iid",),
    summary="every child has the same chance min(1, p/(rho q))",
    citation="Sun et al. 2023 (SpecTr)",
    one_step=one_step,
    hits={"iid": hits},
    kernel="simverify.simulators.trees:K_SEQ",
    rational=False,
)

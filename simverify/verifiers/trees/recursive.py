"""Recursive rejection: one child after the other against the residual of those before.

References
----------
.. [1] Miao et al., "SpecInfer", 2023: siblings are independent samples of q.
.. [2] Chen et al., "Sequoia", 2024: siblings without replacement, so that q loses
       each rejected token. EAGLE does the same.
"""

from typing import Any

import numpy as np

from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier, exclude_tokens, normalised, walk_rule


def one_step(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Accept child x with min(1, r/q), r being p first and norm(r - q)+ after a rejection [1]."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def one_step_without(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """As :func:`one_step`, with q off the rejected tokens, renormalised [2]."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
        q = exclude_tokens(q, [x])
    return draw(residual, p, rng)


def hits(p: Array, q: Array, k: int) -> Array:
    """Return min(p, q), and beyond a rejection the same of the residual with k-1 children."""
    residual = excess(p, q)
    if k == 0:
        return 0 * p
    found: Array = p - residual
    rejected = residual.sum()
    if rejected > 0:
        found = found + rejected * hits(residual / rejected, q, k - 1)
    return found


def hits_without(p: Array, q: Array, k: int) -> Array:
    """Return the same for siblings without replacement: V^(k-1) sequences of rejections."""
    residual = excess(p, q)
    if k == 0 or q.sum() == 0:
        return 0 * p
    found = p - residual
    rejected = excess(q, p)
    for x in map(int, np.flatnonzero(rejected)):
        found = found + rejected[x] * hits_without(
            normalised(residual, p), exclude_tokens(q, [x]), k - 1
        )
    return found


RECURSIVE = TreeVerifier(
    name="recursive",
    rule=walk_rule(one_step),
    schemes=("iid",),
    summary="children one by one, each against what those before left of the target",
    citation="Miao et al. 2023 (SpecInfer)",
    one_step=one_step,
    hits={"iid": hits},
    kernel="simverify.simulators.trees:RECURSIVE",
)

RECURSIVE_WITHOUT = TreeVerifier(
    name="recursive-without-replacement",
    rule=walk_rule(one_step_without),
    schemes=("without-replacement",),
    summary="the same for siblings without replacement: q loses each rejected token",
    citation="Chen et al. 2024 (Sequoia)",
    one_step=one_step_without,
    hits={"without-replacement": hits_without},
    kernel="simverify.simulators.kernels.trees:RECURSIVE_WITHOUT",
    tails="simverify.comparing.tree_bounds:recursive_without_tails",
    slow=True,
)

"""Tree Monte Carlo: one draw over all the places where a chain can end; block's law.

References
----------
.. [1] Hu and Huang, "Accelerated Speculative Sampling Based on Tree Monte Carlo", ICML 2024
       (ASpS). Stated here in the words of [2]; that the two have one law is this project's own
       finding, in fractions.
.. [2] Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025.
"""

from typing import Any

import numpy as np

from simverify.trees import TreeShape
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier


def verify(
    target_probs: Array, draft_probs: Array, tokens: Any, parents: Any, rng: Any
) -> list[int]:
    """Draw the end of the output from the table of all ends, given the drafted chain.

    ``ends[i]`` (V,) is the law of an output that keeps i tokens and goes on with another one.
    With w the weight of the tokens before (block's), the target's mass beyond the draft's,
    (w p - q)+, goes into ``ends[i]``, and of the draft's mass beyond the target's, (q - w p)+,
    the share of the drafted token pays for all ends so far. What is left, w' = min(1, w p/q),
    is the mass of keeping the token too.
    """
    # A token that the draft cannot emit ends the chain before it.
    path = [int(x) for x in tokens]
    impossible = (i for i, x in enumerate(path) if not draft_probs[i][x] > 0)
    path = path[: next(impossible, len(path))]

    weight: Any = 1
    ends = 0 * target_probs[: len(path) + 1]
    for i, x in enumerate(path):
        p, q = weight * target_probs[i], draft_probs[i]
        lost = excess(q, p)
        total = lost.sum()
        if total > 0:
            ends[i] = excess(p, q)
            ends *= lost[x] / total / q[x]
        weight = min(1, p[x] / q[x])
    ends[len(path)] = weight * target_probs[len(path)]
    size = len(target_probs[0])
    otherwise = np.zeros_like(ends)
    otherwise[-1] = target_probs[len(path)]
    kept, last = divmod(draw(ends.ravel(), otherwise.ravel(), rng), size)
    return [*path[:kept], last]


def _supports_tree_monte_carlo(shape: TreeShape) -> bool:
    return shape.is_chain


TREE_MONTE_CARLO = TreeVerifier(
    name="tree-monte-carlo",
    rule=verify,
    schemes=("iid", "without-replacement"),
    summary="one draw over all the places where a chain can end; block's distribution",
    citation="Hu and Huang 2024 (ASpS)",
    fits=_supports_tree_monte_carlo,
    needs="a chain",
    kernel="simverify.simulators.kernels.trees:TREE_MONTE_CARLO",
    block_on_chain=True,
)

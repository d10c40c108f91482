"""Hierarchical speculative decoding: from the end of a chain, each prefix by its branches.

References
----------
.. [1] Zhou et al., "Overcoming Joint Intractability with Lossless Hierarchical Speculative
       Decoding", 2026, arXiv:2601.05724. The cap of a prefix must count the prefix itself, and
       the last test must be capped too; either slip is lossy.
"""

from typing import Any

from simverify.trees import TreeShape
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import TreeVerifier


def verify(
    target_probs: Array, draft_probs: Array, tokens: Any, parents: Any, rng: Any
) -> list[int]:
    """Keep the longest prefix whose coin falls below D_pq / max(D_pq, D_qp).

    r_t is the ratio p/q of the joints of t tokens, r*_t = r_t / max(1, r_1, ..., r_t), and with
    the rows after t tokens D_pq is the sum of (r* p - q)+ and D_qp that of (q - r* p)+. All
    tokens are kept with r*.
    """
    path = [int(token) for token in tokens]
    ratio: Any = 1
    most: Any = 1
    capped = [ratio]
    for i, x in enumerate(path):
        q = draft_probs[i][x]
        ratio = ratio * target_probs[i][x] / q if q > 0 else 0 * ratio
        most = max(most, ratio)
        capped.append(ratio / most)
    if rng.random() < capped[-1]:
        return [*path, draw(target_probs[len(path)], target_probs[len(path)], rng)]
    for t in reversed(range(len(path))):
        p = capped[t] * target_probs[t]
        gained, lost = excess(p, draft_probs[t]).sum(), excess(draft_probs[t], p).sum()
        larger = max(gained, lost)
        if t == 0 or larger == 0 or rng.random() < gained / larger:
            break
    return [*path[:t], draw(excess(p, draft_probs[t]), target_probs[t], rng)]


def _supports_hierarchical(shape: TreeShape) -> bool:
    return shape.is_chain


HIERARCHICAL = TreeVerifier(
    name="hierarchical",
    rule=verify,
    schemes=("iid", "without-replacement"),
    summary="a chain from its end, each prefix by its branches; block's distribution",
    citation="Zhou et al. 2026 (HSD), capped",
    fits=_supports_hierarchical,
    needs="a chain",
    kernel="simverify.simulators.kernels.trees:HIERARCHICAL",
    block_on_chain=True,
)

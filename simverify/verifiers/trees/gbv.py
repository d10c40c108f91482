"""Greedy multi-path block verification: the best of K chains, then block on its law.

References
----------
.. [1] Thomas and Pal, "Greedy Multi-Path Block Verification for Faster Decoding in Speculative
       Sampling", 2026, arXiv:2602.16961. K = 1 is block.
"""

from typing import Any

import numpy as np

from simverify.trees import ROOT, TreeShape
from simverify.verifiers import block
from simverify.verifiers.base import Array
from simverify.verifiers.trees.base import TreeVerifier


def ranks(p: Array, q: Array) -> list[int]:
    """Return the tokens that q (V,) can draw from the worst to the best: by p/q, then by id."""
    drawn = [x for x in range(len(q)) if q[x] > 0]
    return sorted(drawn, key=lambda x: (p[x] / q[x], x))


def verify(
    target_probs: Array, draft_probs: Array, tokens: Any, parents: Any, rng: Any
) -> list[int]:
    """Choose the way that is the lexicographic maximum of p/q; judge it with its own law.

    The chosen way begins with x^i with probability (A + Q)^K - A^K, Q the draft's probability
    of x^i and A that of all beginnings ranked below.
    """
    shape = TreeShape(tuple(map(int, parents)))
    ways = [shape.way(node) for node in range(len(shape)) if not shape.children[node]]
    count = len(ways)
    below: Any = 0
    mass: Any = 1
    at, joint, rows = ROOT, 1, []
    for level in range(shape.depth):
        p, q = target_probs[at + 1], draft_probs[at + 1]
        ranked = ranks(p, q)
        # The law of the chosen way's next token, given its beginning.
        law, under = 0 * q, below
        for x in ranked:
            law[x] = ((under + mass * q[x]) ** count - under**count) / joint
            under = under + mass * q[x]
        rows.append(law)
        best = max((int(tokens[way[level]]) for way in ways), key=ranked.index)
        ways = [way for way in ways if int(tokens[way[level]]) == best]
        below = below + mass * sum(q[x] for x in ranked[: ranked.index(best)])
        mass, joint, at = mass * q[best], joint * law[best], ways[0][level]
    way = ways[0]
    path = [int(tokens[node]) for node in way]
    target = target_probs[[node + 1 for node in (ROOT, *way)]]
    return block.verify(target, np.array(rows), np.array(path), rng)


def _supports_gbv(shape: TreeShape) -> bool:
    chains = len(shape.children[ROOT])
    return len(shape) == chains * shape.depth and all(
        len(children) <= 1 for node, children in shape.children.items() if node != ROOT
    )


GBV = TreeVerifier(
    name="gbv",
    rule=verify,
    schemes=("iid",),
    summary="the best of K independent chains by p/q, then block against its distribution",
    citation="Thomas and Pal 2026 (GBV)",
    fits=_supports_gbv,
    needs="chains of one length from the root",
    kernel="simverify.simulators.kernels.trees:GBV",
    curve="simverify.comparing.tree_bounds:gbv_curve",
    tails="simverify.comparing.tree_bounds:gbv_tails",
    block_on_chain=True,
)

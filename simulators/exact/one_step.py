"""The best that any rule can do with the drafts of one node.

References
----------
.. [1] Sun et al., "SpecTr", 2023: the optimal transport (OTM) between the drafts and the target.
.. [2] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", ICLR 2025: its value as a
       minimum over sets of tokens, and which sets are enough.
"""

from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.trees import Scheme
from simverify.verifiers.base import Array

MAX_DRAWS = 1_000_000
"""Most ordered draws V^m without replacement that are listed."""


def best_hit(p: Array, q: Array, k: int, scheme: Scheme) -> Any:
    """Return the largest probability that the emitted token is one of ``k`` siblings.

    1 + the minimum over sets H of p(H) - Pr(all siblings are in H) [2]. Of sets that matter the
    certain siblings come first, and then tokens in the order of q/p, the largest first. ``p``
    and ``q`` (V,) may be floats or fractions.

    Raises ``UsageError`` for drafts without replacement that are too many to list.
    """
    certain = scheme.fixed(q, k)
    samples = k - len(certain)
    order = [*certain, *_by_ratio(p, q, certain)]
    if samples <= 0:
        return p[list(certain)].sum()
    if scheme.replaced:
        inside = np.cumsum(q[order]) ** samples
    else:
        inside = _inside(q, order, certain, samples, scheme)
    # A set without the certain siblings holds all of them with probability 0, as none does.
    slack = (np.cumsum(p[order]) - inside)[max(len(certain) - 1, 0) :]
    return 1 + min(0 * slack[0], slack.min())


def _by_ratio(p: Array, q: Array, certain: tuple[int, ...]) -> list[int]:
    """Return the other tokens from the largest q/p down; those of which p is 0 come first."""
    rest = [x for x in range(len(p)) if x not in certain]
    endless = float("inf")
    if p.dtype == q.dtype == np.float64:  # as below, for vocabularies of models that are real
        ratio = np.divide(q, p, out=np.full(len(p), endless), where=p > 0)[rest]
        return [rest[i] for i in np.argsort(-ratio, kind="stable")]
    return sorted(rest, key=lambda x: q[x] / p[x] if p[x] > 0 else endless, reverse=True)


def _inside(
    q: Array, order: list[int], certain: tuple[int, ...], samples: int, scheme: Scheme
) -> Array:
    """Return Pr(all siblings are among the first i tokens of ``order``), i = 1..V."""
    row = scheme.next_row(q, certain)
    if samples == 1 and row is not None:
        only: Array = np.cumsum(row[order])
        return only
    if len(q) ** samples > MAX_DRAWS:
        raise UsageError(
            f"{samples} drafts without replacement of {len(q)} tokens: expected at most "
            f"{MAX_DRAWS:,} ordered draws; take fewer drafts or a smaller vocabulary"
        )
    rank = {token: i for i, token in enumerate(order)}
    last = 0 * q
    for siblings, mass in scheme.law(q, samples + len(certain)).items():
        last[max(rank[x] for x in siblings)] += mass
    inside: Array = np.cumsum(last)
    return inside

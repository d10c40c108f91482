"""Certified bounds on traversal verification of several chains from the root.

The first chain is judged as block verification does. If all of it falls, the root's target loses to
it what the token rule's residual loses, whatever the tokens were, and the root's weight is 1
again; so the next chain is judged as block does against that residual. The curve is a mixture of
block's curves, which ``bounds`` encloses.
"""

from dataclasses import replace

import numpy as np

from simverify.models.base import MarkovModel
from simverify.simulators.exact.bounds import CurveBounds, tree_bounds
from simverify.simulators.exact.recursion import kept_by_token

_ROUNDINGS = 1e-12
"""More than the residuals and their sums can be off by, a few ulp of a row that sums to 1."""


def traversal_bounds(
    model: MarkovModel, chains: int, gamma: int, *, bins: int | None = None
) -> CurveBounds:
    """Bound Pr(tau >= l), l = 1..gamma, of traversal on ``chains`` independent chains.

    ``bins`` as in :func:`~.bounds.tree_bounds`, which is called once for each chain, and whose
    errors are raised.
    """
    lower, upper = np.zeros(gamma), np.zeros(gamma)
    standing, start, used = 1.0, model.target_start, 0
    for _ in range(chains):
        begun = replace(model, target_start=start, rational=None)
        bounds = tree_bounds(begun, gamma, "block", bins=bins)
        lower += standing * bounds.lower
        upper += standing * bounds.upper
        used = max(used, bounds.bins)
        residual = start - kept_by_token(start, model.draft_start)
        left = residual.sum()
        standing *= left
        if standing <= _ROUNDINGS:
            break
        start = residual / left
    return CurveBounds(np.maximum(lower - _ROUNDINGS, 0), np.minimum(upper + _ROUNDINGS, 1), used)

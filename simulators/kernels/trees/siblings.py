"""How the children of a node are drafted, one after the other: the schemes, compiled."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from simverify.simulators.kernels.tables.access import draft

Ints = npt.NDArray[np.int64]


class Drafts(NamedTuple):
    """A shape of n nodes and its scheme. Nodes are counted from 1 here; 0 is the root."""

    first: Ints  # (n+2,) the children of node i are child[first[i]:first[i+1]]
    child: Ints  # (n,)
    parent: Ints  # (n+1,)
    certain: Ints  # (n+1,) how many of a node's children are the likeliest of q, for certain
    fixed: npt.NDArray[np.int32]  # (S+1, most of these, V at most) the likeliest tokens of each row
    replaced: bool  # whether the others are independent samples


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def draw_from(weights: Any, u: Any) -> Any:
    """Token drawn from ``weights`` (V,) by the uniform ``u``; -1 where all are zero."""
    total = 0.0
    for x in range(weights.shape[0]):
        total += weights[x]
    goal = u * total
    below = 0.0
    found = np.int64(-1)
    for x in range(weights.shape[0]):
        if weights[x] > 0.0:
            found = np.int64(x)
            below += weights[x]
            if goal < below:
                break
    return found


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def sibling(
    tables: Any, drafts: Any, state: Any, node: Any, j: Any, before: Any, left: Any, u: Any
) -> Any:
    """Token of child ``j`` of ``node`` by the uniform ``u``; -1 where the row has no more.

    ``before`` int64 (j,) are the siblings drafted so far. ``left`` float64 (V,) is what they leave
    of q from call to call, where the scheme draws no token twice.
    """
    certain = drafts.certain[node]
    if j < certain:
        return np.int64(drafts.fixed[state, j]) if j < drafts.fixed.shape[1] else np.int64(-1)
    if drafts.replaced or j == 0:
        return draft(tables, state, u)
    if j == max(certain, 1):
        for x in range(left.shape[0]):
            left[x] = tables.draft[state, x]
        for i in range(j):
            left[before[i]] = 0.0
    else:
        left[before[j - 1]] = 0.0
    return draw_from(left, u)

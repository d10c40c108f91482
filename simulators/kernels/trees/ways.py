"""Which nodes a call kept: the drafted tree is drawn again, and searched for the emitted tokens.

Rules draft no more than they look at, and none says which of two equal siblings it kept. Every
draw has an address, so the tree that would have been drafted at once is there to be read.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.philox import DRAFT, fill_tile
from simverify.simulators.kernels.trees.siblings import sibling

_TILE = 128


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def same(
    tables: Any, drafts: Any, state: Any, node: Any, token: Any, u_draft: Any, t: Any,
    before: Any, left: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the children of ``node`` that have ``token`` to ``out``; return how many there are."""
    begin = drafts.first[node]
    found = 0
    for j in range(drafts.first[node + 1] - begin):
        child = drafts.child[begin + j]
        x = sibling(tables, drafts, state, node, j, before, left, u_draft[child - 1, t])
        if x < 0:
            break
        before[j] = x
        if x == token:
            out[found] = child
            found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def count_ways(
    tables: Any, drafts: Any, seed: Any, first: Any, trail: Any, most: Any, kept: Any
) -> None:
    """Add to ``kept`` int64 (n,) the nodes on the way that each of the trials kept.

    ``trail`` int64 (trials, depth+1, 2): state and token of what trial ``first`` and those after
    it emitted, -1 where there is no more. ``most``: most children of a node. The way of a trial
    is the first in the tree's order that has its accepted tokens.
    """
    nodes, depth = kept.shape[0], trail.shape[1] - 1
    u_draft = np.empty((nodes + nodes % 2, _TILE))
    before, left = np.empty(most, np.int64), np.empty(tables.draft.shape[1])
    # By level: the children that have the level's token, how many, and which of them is tried.
    ways = np.empty((depth, most), np.int64)
    count, at = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    for begin in range(0, trail.shape[0], _TILE):
        size = min(_TILE, trail.shape[0] - begin)
        fill_tile(seed, first + begin, DRAFT, 0, u_draft)
        for t in range(size):
            emitted = trail[begin + t]
            accepted = 0
            while accepted < depth and emitted[accepted + 1, 1] >= 0:
                accepted += 1
            if accepted == 0:
                continue
            level, node = 0, np.int64(0)
            entered = True
            while level >= 0:
                if entered:
                    count[level] = same(
                        tables, drafts, emitted[level, 0], node, emitted[level, 1], u_draft, t,
                        before, left, ways[level],
                    )  # fmt: skip
                    at[level] = 0
                if at[level] == count[level]:
                    level -= 1
                    entered = False
                    if level >= 0:
                        at[level] += 1
                elif level + 1 == accepted:
                    for i in range(accepted):
                        kept[ways[i, at[i]] - 1] += 1
                    break
                else:
                    node = ways[level, at[level]]
                    level += 1
                    entered = True

"""One call per trial on a draft tree: draft, judge, emit, count.

Draw addresses (``philox``): node n is drafted by draw n of stream DRAFT and judged by draw n of
ACCEPT; a token that is not a tested draft takes draw l of CORRECTION, l its level in rules that
walk down the tree and 0 in the others; the context takes draw 0 of CONTEXT, position n's
randomised PIT draw n of PIT. On a chain these are the draws of ``generation``.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.generation import count
from simverify.simulators.kernels.philox import ACCEPT, CONTEXT, CORRECTION, DRAFT, PIT, fill_tile
from simverify.simulators.kernels.tables.access import start
from simverify.simulators.kernels.trees.judging import judge

_TILE = 128


@njit(cache=True, nogil=True, error_model="numpy")
def generate_trees(
    tables: Any,
    rule: Any,
    drafts: Any,
    scratch: Any,
    seed: Any,
    begin: Any,
    end: Any,
    cells: Any,
    accepted: Any,
    lengths: Any,
    transitions: Any,
    pits: Any,
    unsupported: Any,
    trail: Any,
) -> None:
    """Run trials ``begin`` to ``end``-1, each one call from its own context.

    Adds to what :func:`~.generation.generate` adds to: ``accepted`` int64 (depth+1,), ``lengths``
    int64 (2, 1), ``transitions`` int64 (positions, states, cells), ``pits`` int64 (2, positions,
    bins), ``unsupported`` int64 (1,); ``trail`` int64 (trials, positions, 2) is written.
    """
    depth = accepted.shape[0] - 1
    nodes = drafts.child.shape[0]
    u_draft = np.empty((nodes + nodes % 2, _TILE))
    u_accept = np.empty((nodes + nodes % 2, _TILE))
    u_last = np.empty((depth + 1 + (depth + 1) % 2, _TILE))
    u_start = np.empty((2, _TILE))
    u_pit = np.empty((pits.shape[1] + pits.shape[1] % 2, _TILE))
    states = np.empty((depth + 1, _TILE), np.int64)
    tokens = np.empty((depth, _TILE), np.int64)
    for first in range(begin, end, _TILE):
        size = min(_TILE, end - first)
        fill_tile(seed, first, CONTEXT, 0, u_start)
        fill_tile(seed, first, PIT, 0, u_pit)
        fill_tile(seed, first, DRAFT, 0, u_draft)
        fill_tile(seed, first, ACCEPT, 0, u_accept)
        fill_tile(seed, first, CORRECTION, 0, u_last)
        for t in range(size):
            states[0, t] = start(tables, u_start[0, t])
            tau, last = judge(
                rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch
            )
            accepted[tau] += 1
            lengths[0, 0] += tau + 1
            lengths[1, 0] += (tau + 1) * (tau + 1)
            for i in range(tau + 1):
                token = tokens[i, t] if i < tau else last
                count(
                    tables, states[i, t], token, i, u_pit, t, cells, transitions, pits,
                    unsupported,
                )  # fmt: skip
                if i < trail.shape[1]:
                    trail[first + t - begin, i, 0] = states[i, t]
                    trail[first + t - begin, i, 1] = token

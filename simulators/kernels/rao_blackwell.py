"""Rao-Blackwell estimates of Pr(tau >= l) from the rules' closed forms, on whole rows.

A yardstick for the kernels, so it shares nothing with them but the random numbers: rows come
from the n-gram counts themselves, and a rule is its f(x^l) = Pr(X^l = x^l, tau >= l) as it
stands beside the readable rule. A path is not drawn from the draft but in proportion to
greedy block's f, which is nowhere below the others'. With P(x^l) the path's probability,
f(x^l) / P(x^l) then lies in [0, 1] and averages to Pr(tau >= l); the sum over x_l in its
place takes out the last draw. All rules see the same paths: differences are paired.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.philox import DRAFT, fill_tile

TOKEN, BLOCK, GREEDY, MATCH = range(4)
RULES = ("token", "block", "greedy", "match")
"""The rules in the order of the outputs."""

PAIR = 2
"""Paths in a stratum: what they differ by is the variance within it."""


@njit(cache=True, nogil=True, error_model="numpy")
def find(keys: Any, key: Any) -> Any:
    """Index of ``key`` in the ascending ``keys``, -1 where it is not there."""
    low, size = np.int64(0), np.int64(keys.shape[0])
    while size > 1:
        half = size >> 1
        low = low + half if keys[low + half] <= key else low
        size -= half
    return low if keys[low] == key else np.int64(-1)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_target(long_orders: Any, draft_row: Any, context: Any, p: Any) -> None:
    """Write the target's row after ``context`` (uint64, bytes packed big-endian) to ``p``.

    ``draft_row`` is the draft's. ``long_orders`` are the longer n-grams, shortest first, each
    (contexts, mask, starts, tokens, counts): a context that was seen with N followers of T
    kinds leaves T / (N + T) of the shorter one's row, and adds count / (N + T) to each.
    """
    # Loops: numba takes a second and a half to compile array expressions.
    for x in range(p.shape[0]):
        p[x] = draft_row[x]
    for contexts, mask, starts, tokens, counts in long_orders:
        i = find(contexts, context & mask)
        if i >= 0:
            first, end = starts[i], starts[i + 1]
            total = end - first
            for e in range(first, end):
                total += counts[e]
            share = (end - first) / total
            for x in range(p.shape[0]):
                p[x] *= share
            for e in range(first, end):
                p[tokens[e]] += counts[e] / total


@njit(cache=True, nogil=True, error_model="numpy")
def estimate(rows: Any, context: Any, u: Any, p: Any, sums: Any, out: Any) -> None:
    """Estimate the rules' curves on the path that ``u`` draws after ``context``.

    ``rows`` is (long_orders, draft rows (R, V), row of each 2-byte context (65536,)); ``u``
    float64 (gamma - 1,) or more; ``p`` and ``sums`` float64 (V,) are scratch. Writes ``out``
    float64 (4, gamma+1): entry l-1 estimates Pr(tau >= l), the last one E[tau].
    """
    long_orders, draft_rows, row_of = rows
    gamma = out.shape[1] - 1
    out[:] = 0.0
    # Each f, and the joints m of the draft and b of the target, over the path's probability.
    m = b = token = block = greedy = match = 1.0
    for i in range(gamma):
        q = draft_rows[row_of[context & np.uint64(0xFFFF)]]
        fill_target(long_orders, q, context, p)
        to_token = to_block = greedy = to_match = 0.0
        for x in range(p.shape[0]):
            px, qx = p[x], q[x]
            to_token += token * (px if px < qx else qx)
            own, drafted, joint = block * px, m * qx, b * px
            to_block += own if own < drafted else drafted
            greedy += joint if joint < drafted else drafted
            to_match += match * px * qx
            sums[x] = greedy
        out[TOKEN, i] = to_token
        out[BLOCK, i] = to_block
        out[GREEDY, i] = greedy
        out[MATCH, i] = to_match
        if i + 1 == gamma or not greedy > 0.0:
            break
        x, above = 0, p.shape[0] - 1
        while x < above:
            middle = (x + above) // 2
            x, above = (middle + 1, above) if sums[middle] <= u[i] * greedy else (x, middle)
        px, qx = p[x], q[x]
        share = min(b * px, m * qx) / greedy
        token *= min(px, qx) / share
        block = min(block * px, m * qx) / share
        match *= px * qx / share
        b *= px / share
        m *= qx / share
        context = context << np.uint64(8) | np.uint64(x)
    for rule in range(out.shape[0]):
        for i in range(gamma):
            out[rule, gamma] += out[rule, i]


@njit(cache=True, nogil=True, error_model="numpy")
def accumulate(
    rows: Any, contexts: Any, low: Any, width: Any, seed: Any, trial: Any, sums: Any, squares: Any
) -> None:
    """Run two independent paths in each stratum and add up.

    Stratum n: context ``contexts[n]``, first uniform in [low, low + width). ``sums`` float64
    (4, gamma+1) takes the means of the pairs, ``squares`` half their squared differences,
    whose mean is the variance within the strata. Path j of stratum n reads the draws of
    trial ``trial + 2 n + j``.
    """
    draws = max(sums.shape[1] - 2, 1)
    u = np.empty((draws + draws % 2, PAIR))
    p = np.empty(rows[1].shape[1])
    scratch = np.empty_like(p)
    pair = np.empty((PAIR, *sums.shape))
    for n in range(contexts.shape[0]):
        fill_tile(seed, trial + PAIR * n, DRAFT, 0, u)
        for j in range(PAIR):
            u[0, j] = low[n] + width[n] * u[0, j]
            estimate(rows, contexts[n], u[:, j], p, scratch, pair[j])
        sums += (pair[0] + pair[1]) / 2.0
        squares += (pair[0] - pair[1]) ** 2 / 2.0


@njit(cache=True, nogil=True, error_model="numpy")
def follow_modes(rows: Any, contexts: Any, out: Any) -> None:
    """Write the draft's probability of the target's modes after each context.

    ``rows`` as in :func:`estimate`. ``out`` float64 (contexts, gamma): entry i is q at the
    mode of p (the lowest id among equals), on the path of the i modes before it.
    """
    long_orders, draft_rows, row_of = rows
    p = np.empty(draft_rows.shape[1])
    for n in range(out.shape[0]):
        context = contexts[n]
        for i in range(out.shape[1]):
            q = draft_rows[row_of[context & np.uint64(0xFFFF)]]
            fill_target(long_orders, q, context, p)
            mode = np.argmax(p)
            out[n, i] = q[mode]
            context = context << np.uint64(8) | np.uint64(mode)

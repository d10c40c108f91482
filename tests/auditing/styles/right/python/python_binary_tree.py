"""A Huffman-like heap of weights; a coin at every node on the way down."""

import heapq

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    heap = [(float(v), x, x) for x, v in enumerate(w) if v > 0]
    heapq.heapify(heap)
    number = len(w)
    while len(heap) > 1:
        low, high = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (low[0] + high[0], number, (low, high)))
        number += 1
    node = heap[0][2]
    while isinstance(node, tuple):
        low, high = node
        node = low[2] if rng.random() < low[0] / (low[0] + high[0]) else high[2]
    return node


def coin(a, rng):
    return rng.random() < a


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[x] / q[x]
        if ratio >= 1 or coin(ratio, rng):
            kept.append(int(x))
            continue
        residual = np.maximum(p - q, 0)
        return [*kept, draw(residual / residual.sum(), rng)]
    return [*kept, draw(target_probs[-1], rng)]

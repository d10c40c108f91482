"""Traversal that goes down from the root each time, and forgets what rejections left of a weight.

TV .17 on two levels: a node that lost its children is weighed as if it had none.
"""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    rows = {node: target_probs[node + 1] for node in range(-1, len(tokens))}
    weights, gone = {-1: 1.0}, set()

    def leaf():
        node = -1
        while True:
            left = (c for c in np.flatnonzero(parents == node) if c not in gone)
            child = next(left, None)
            if child is None:
                return node
            x = tokens[child]
            weights[child] = min(1.0, weights[node] * rows[node][x] / draft_probs[node + 1][x])
            node = child

    while (node := leaf()) != -1 and not rng.random() < weights[node]:
        gone.add(node)
        up = int(parents[node])
        left = np.maximum(weights[up] * rows[up] - draft_probs[up + 1], 0)
        total = left.sum()
        weights[up] = total / (total + 1 - weights[up]) if total + 1 > weights[up] else 1.0
        rows[up] = left / total if total > 0 else rows[up]
    last, way = int(rng.choice(rows[node].size, p=rows[node])), []
    while node != -1:
        way.insert(0, int(tokens[node]))
        node = int(parents[node])
    return [*way, last]

"""Traversal of independent siblings with lists that are popped, weights in a list by node."""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    n = len(tokens)
    p, q = list(target_probs), list(draft_probs)
    weight = [1.0] + [0.0] * n
    open_ = [[] for _ in range(n + 1)]
    for i in reversed(range(n)):
        open_[parents[i] + 1].append(i + 1)
    at = 0
    while True:
        while open_[at]:
            child = open_[at][-1]
            x = tokens[child - 1]
            weight[child] = min(1.0, weight[at] * p[at][x] / q[at][x])
            at = child
        if at == 0 or rng.random() <= weight[at]:
            break
        at = parents[at - 1] + 1
        open_[at].pop()
        left = np.maximum(weight[at] * p[at] - q[at], 0.0)
        total = left.sum()
        room = total + 1.0 - weight[at]
        weight[at] = total / room if room > 0 else 1.0
        if total > 0:
            p[at] = left / total
    way = []
    node = at
    while node:
        way.append(int(tokens[node - 1]))
        node = parents[node - 1] + 1
    return [*way[::-1], int(rng.choice(len(p[at]), p=p[at]))]

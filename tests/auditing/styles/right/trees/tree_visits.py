"""Traversal of independent siblings by recursion: a visit returns tokens, or None if all failed."""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    def visit(node, weight):
        p, q = target_probs[node + 1], draft_probs[node + 1]
        for child in np.flatnonzero(parents == node):
            x = int(tokens[child])
            found = visit(child, min(1.0, weight * p[x] / q[x]))
            if found is not None:
                return [x, *found]
            left = np.maximum(weight * p - q, 0)
            total = left.sum()
            weight = total / (total + 1 - weight) if total + 1 > weight else 1.0
            p = left / total if total > 0 else p
        if node == -1 or rng.random() < weight:
            return [int(rng.choice(p.size, p=p))]
        return None

    return visit(-1, 1.0)

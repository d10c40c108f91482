"""Token 0 is taken for padding, so that a child of it is never accepted and still taken off p."""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    node, out = -1, []
    while True:
        p, q = target_probs[node + 1], draft_probs[node + 1]
        for child in np.flatnonzero(parents == node):
            x = int(tokens[child])
            if x and rng.random() < p[x] / q[x]:
                out.append(x)
                node = child
                break
            left = np.maximum(p - q, 0)
            p = left / left.sum() if left.sum() > 0 else p
        else:
            return [*out, int(rng.choice(p.size, p=p))]

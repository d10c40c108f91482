"""Children are the likeliest of q, and are tested as if they were samples of it. TV .1 and more."""

import numpy as np

CONTRACT = "tree"
SCHEME = "top-k"


def tree(target_probs, draft_probs, tokens, parents, rng):
    node, out = -1, []
    while True:
        p, q = target_probs[node + 1].copy(), draft_probs[node + 1].copy()
        chosen = None
        for child in np.flatnonzero(parents == node):
            x = int(tokens[child])
            if q[x] > 0 and rng.random() < p[x] / q[x]:
                chosen = child
                break
            left = np.maximum(p - q, 0)
            p = left / left.sum() if left.sum() > 0 else p
            q[x] = 0
            q = q / q.sum() if q.sum() > 0 else q
        if chosen is None:
            return [*out, int(rng.choice(p.size, p=p))]
        out.append(int(tokens[chosen]))
        node = chosen

"""Siblings are tried in the order of the target's p, the likeliest first."""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    node, out = -1, []
    while True:
        p, q = target_probs[node + 1], draft_probs[node + 1]
        kids = sorted(
            np.flatnonzero(parents == node), key=lambda k: -target_probs[node + 1][tokens[k]]
        )
        for child in kids:
            x = int(tokens[child])
            if rng.random() < p[x] / q[x]:
                out.append(x)
                node = child
                break
            left = np.maximum(p - q, 0)
            p = left / left.sum() if left.sum() > 0 else p
        else:
            return [*out, int(rng.choice(p.size, p=p))]

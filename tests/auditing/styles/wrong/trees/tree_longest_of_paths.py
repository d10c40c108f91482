"""Every path is verified alone by the token rule; the longest result is kept. TV .1 and more."""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def one(path, target, draft, tokens, rng):
    out, row = [], 0
    for node in path:
        p, q, x = target[row], draft[row], int(tokens[node])
        if rng.random() >= p[x] / q[x]:
            left = np.maximum(p - q, 0)
            return [*out, int(rng.choice(p.size, p=left / left.sum()))]
        out.append(x)
        row = node + 1
    return [*out, int(rng.choice(target.shape[1], p=target[row]))]


def tree(target_probs, draft_probs, tokens, parents, rng):
    best = []
    for leaf in set(range(len(tokens))) - set(parents.tolist()):
        path = []
        while leaf >= 0:
            path.insert(0, leaf)
            leaf = int(parents[leaf])
        found = one(path, target_probs, draft_probs, tokens, rng)
        best = max(best, found, key=len)
    return best

"""All children but the last are certain; the last one is tested, and the rest drawn at once."""

import numpy as np

CONTRACT = "tree"
SCHEME = "last-sampled"


def step(p, q, kids, rng):
    certain, last = kids[:-1], kids[-1]
    off = q.copy()
    off[certain] = 0
    total = off.sum()
    if total == 0:
        return rng.choice(p.size, p=p)
    off /= total
    if off[last] > 0 and rng.random() < min(1.0, p[last] / off[last]):
        return last
    rest = np.maximum(p - off, 0)
    rest[certain] = p[certain]
    return rng.choice(p.size, p=rest / rest.sum())


def tree(target_probs, draft_probs, tokens, parents, rng):
    node, out = -1, ()
    while True:
        below = [i for i in range(len(parents)) if parents[i] == node]
        p = target_probs[node + 1]
        y = (
            step(p, draft_probs[node + 1], [tokens[i] for i in below], rng)
            if below
            else rng.choice(p.size, p=p)
        )
        out += (int(y),)
        node = next((i for i in below if tokens[i] == y), None)
        if node is None:
            return out

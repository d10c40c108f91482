"""The bonus comes from the row of the node before in number, as where rows are counted from 0."""

import numpy as np

CONTRACT = "tree"
SCHEME = "top-k"


def tree(target_probs, draft_probs, tokens, parents, rng):
    node, out = -1, []
    while True:
        kids = np.flatnonzero(parents == node)
        p = target_probs[node + 1] if kids.size or node < 0 else target_probs[node]
        y = int(rng.choice(p.size, p=p))
        out.append(y)
        hits = [k for k in kids if tokens[k] == y]
        if not hits:
            return out
        node = hits[0]

"""A certain tree, judged with one uniform a level along a cumulative sum in the order of p."""

import numpy as np

CONTRACT = "tree"
SCHEME = "top-k"


def tree(target_probs, draft_probs, tokens, parents, rng):
    node, out = -1, []
    for _ in range(len(tokens) + 1):
        p = target_probs[node + 1]
        order = np.argsort(p, kind="stable")
        y = int(
            order[min(np.searchsorted(np.cumsum(p[order]), rng.random(), side="right"), p.size - 1)]
        )
        out.append(y)
        hits = np.flatnonzero((parents == node) & (tokens == y))
        if not hits.size:
            break
        node = int(hits[0])
    return np.array(out)

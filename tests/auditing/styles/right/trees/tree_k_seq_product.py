"""K-SEQ with rho = K: one uniform against the product of refusals says which child is taken."""

import numpy as np

CONTRACT = "tree"
SCHEME = "iid"


def one_level(p, q, drafted, rng):
    k = len(drafted)
    share = np.minimum(q, p / max(k, 1))
    if k:
        chances = share[drafted] / q[drafted]
        place = np.searchsorted(1 - np.cumprod(1 - chances), rng.random(), side="right")
        if place < k:
            return drafted[place]
        beta = share.sum()
        p = np.maximum(p - share * ((1 - (1 - beta) ** k) / beta if beta > 0 else 0), 0)
    return rng.choice(p.size, p=p / p.sum())


def tree(target_probs, draft_probs, tokens, parents, rng):
    out, node = [], -1
    while node is not None:
        children = np.flatnonzero(parents == node)
        drafted = tokens[children]
        out.append(int(one_level(target_probs[node + 1], draft_probs[node + 1], drafted, rng)))
        kept = children[drafted == out[-1]]
        node = int(kept[0]) if len(kept) else None
    return out

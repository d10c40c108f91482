"""Recursive rejection without replacement as a recursion over nodes, weights never normalised."""

import numpy as np

CONTRACT = "tree"
SCHEME = "without-replacement"


def below(node, given):
    target, draft, tokens, parents, rng = given
    kids = [i for i, parent in enumerate(parents) if parent == node]
    return try_kids(kids, target[node + 1] * 1.0, draft[node + 1] * 1.0, given)


def try_kids(kids, p, q, given):
    _, _, tokens, _, rng = given
    if not kids:
        return [int(rng.choice(p.size, p=p / p.sum()))]
    x = tokens[kids[0]]
    p, q = p / p.sum(), q / q.sum()
    if rng.random() * q[x] < p[x]:
        return [int(x), *below(kids[0], given)]
    left = np.clip(p - q, 0, None)
    if left.sum() == 0:
        left = p
    rest = np.where(np.arange(q.size) == x, 0, q)
    return try_kids(kids[1:] if rest.sum() > 0 else [], left, rest, given)


def tree(target_probs, draft_probs, tokens, parents, rng):
    return below(-1, (target_probs, draft_probs, tokens, parents, rng))

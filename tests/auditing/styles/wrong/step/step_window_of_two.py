"""The target is asked about the last two tokens, with zeros in the place of those before.

Every row after three tokens and more may be another; .15 and more on most tables of such rows.
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def cut(ids):
    return (0,) * max(len(ids) - 2, 0) + ids[-2:]


def step(prefix, target, draft, gamma, rng):
    ids = tuple(prefix)
    for _ in range(gamma):
        p, q = target(cut(ids)), draft(ids)
        x = draw(q, rng)
        if rng.random() * q[x] >= p[x]:
            return [*ids[len(prefix) :], draw(np.maximum(p - q, 0), rng)]
        ids += (x,)
    return [*ids[len(prefix) :], draw(target(cut(ids)), rng)]

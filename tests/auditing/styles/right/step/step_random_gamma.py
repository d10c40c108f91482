"""The draft length of each call is itself a draw, from 1 to gamma."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    prefix, kept = tuple(prefix), []
    for _ in range(int(rng.integers(1, gamma + 1))):
        here = (*prefix, *kept)
        p, q = target(here), draft(here)
        x = draw(q, rng)
        if rng.random() * q[x] >= p[x]:
            return [*kept, draw(np.maximum(p - q, 0), rng)]
        kept.append(x)
    return [*kept, draw(target((*prefix, *kept)), rng)]

"""Beyond seven tokens of prefix the bonus is drawn from the draft.

True TV about .15 of 10 tokens by Monte Carlo (V = 2, gamma = 1, p = 1e-102); none before.
"""

import numpy as np

CONTRACT = "step"
BEYOND = "prefix"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    prefix, kept = tuple(prefix), []
    for _ in range(gamma):
        here = (*prefix, *kept)
        p, q = target(here), draft(here)
        x = draw(q, rng)
        if rng.random() * q[x] >= p[x]:
            return [*kept, draw(np.maximum(p - q, 0), rng)]
        kept.append(x)
    row = draft if len(prefix) > 7 else target
    return [*kept, draw(row((*prefix, *kept)), rng)]

"""Two different drafts, the second from the draft without the first, and renormalised."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    p, q = target(tuple(prefix)), draft(tuple(prefix))
    for _ in range(min(2, int((q > 0).sum()))):
        x = draw(q, rng)
        if rng.random() * q[x] < p[x]:
            return [x]
        p, q = np.maximum(p - q, 0), np.where(np.arange(len(q)) == x, 0, q)
        p, q = p / p.sum(), q / max(q.sum(), 1e-300)
    return [draw(p, rng)]

"""Draft and target are drawn with the same Gumbel noise; the target's argmax is emitted."""

import numpy as np

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    out = []
    for _ in range(gamma + 1):
        here = (*prefix, *out)
        p, q = target(here), draft(here)
        noise = rng.gumbel(size=len(p))
        with np.errstate(divide="ignore"):
            x, y = np.argmax(np.log(q) + noise), np.argmax(np.log(p) + noise)
        out.append(int(y))
        if x != y:
            break
    return out

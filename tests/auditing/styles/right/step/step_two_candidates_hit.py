"""Fixed two best drafts as a set: a target draw off the set ends the call."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    out = []
    while len(out) < gamma:
        here = (*prefix, *out)
        best = np.argsort(draft(here))[-2:]
        out.append(draw(target(here), rng))
        if out[-1] not in best:
            break
    return out

"""The draft length follows how many drafts were accepted before: state that moves no law."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.length = 1

    def reset(self):
        self.length = 1

    def step(self, prefix, target, draft, gamma, rng):
        out = []
        for _ in range(min(self.length, gamma)):
            p, q = target((*prefix, *out)), draft((*prefix, *out))
            x = int(rng.choice(len(q), p=q))
            if rng.random() * q[x] >= p[x]:
                self.length = max(1, self.length - 1)
                rest = np.maximum(p - q, 0)
                return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
            out.append(x)
        self.length += 1
        p = target((*prefix, *out))
        return [*out, int(rng.choice(len(p), p=p))]

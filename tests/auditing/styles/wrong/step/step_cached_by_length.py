"""Rows are cached by the prefix's length, and survive a rejection.

True TV 1 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.rows = {}

    def reset(self):
        self.rows.clear()

    def step(self, prefix, target, draft, gamma, rng):
        drafted, here = [], tuple(prefix)
        for _ in range(gamma):
            drafted.append(draw(draft((*here, *drafted)), rng))
        for i in range(gamma + 1):
            self.rows.setdefault(len(here) + i, target((*here, *drafted[:i])))
        for i, x in enumerate(drafted):
            p, q = self.rows[len(here) + i], draft((*here, *drafted[:i]))
            if rng.random() * q[x] >= p[x]:
                return [*drafted[:i], draw(np.maximum(p - q, 1e-12), rng)]
        return [*drafted, draw(self.rows[len(here) + gamma], rng)]

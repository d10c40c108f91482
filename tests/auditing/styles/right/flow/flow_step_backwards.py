"""A step rule that asks the target from the last position to the first, and twice each."""

import numpy as np

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    drafted = []
    for _ in range(gamma):
        q = draft((*prefix, *drafted))
        drafted.append(int(rng.choice(len(q), p=q)))
    p = {}
    for i in list(range(gamma, -1, -1)) * 2:
        p[i] = target((*prefix, *drafted[:i]))
    out = []
    for i, token in enumerate(drafted):
        q = draft((*prefix, *out))
        if rng.random() * q[token] >= p[i][token]:
            rest = np.maximum(p[i] - q, 0)
            return [*out, int(rng.choice(len(rest), p=rest / rest.sum()))]
        out.append(token)
    return [*out, int(rng.choice(len(p[gamma]), p=p[gamma]))]

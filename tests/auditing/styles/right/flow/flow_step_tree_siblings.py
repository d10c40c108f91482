"""SpecInfer's recursive rejection among siblings drawn without replacement, two levels deep."""

import numpy as np

CONTRACT = "step"


def level(p, q, children, rng):
    q = q.copy()
    for _ in range(children):
        if q.sum() <= 0:
            break
        q /= q.sum()
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] < p[x]:
            return x, True
        p = np.maximum(p - q, 0)
        p /= p.sum()
        q[x] = 0.0
    return int(rng.choice(len(p), p=p)), False


def step(prefix, target, draft, gamma, rng):
    out = ()
    for children in (2, 1)[:gamma]:
        x, on = level(target(prefix + out), draft(prefix + out), children, rng)
        out += (x,)
        if not on:
            return out
    last = target(prefix + out)
    return (*out, rng.choice(len(last), p=last))

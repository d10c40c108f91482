"""Plain verifiers that several tests audit: under the verify contract, right or nearly so."""

import numpy as np


def token(p, q, x, rng):
    """Token verification; the residual is never asked for where it is empty."""
    for i, t in enumerate(x):
        if rng.random() >= p[i][t] / q[i][t]:
            r = np.maximum(p[i] - q[i], 0)
            return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
    return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]


def scaled(factor):
    """Return token verification that accepts ``factor`` times as readily."""

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if rng.random() >= factor * p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                r = r if r.sum() > 0 else p[i]
                return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
        return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify

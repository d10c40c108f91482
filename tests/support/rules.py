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


def norm(p, q):
    """Return the row that a rejection draws from: p where p = q."""
    rest = np.maximum(p - q, 0)
    return rest / rest.sum() if rest.sum() > 0 else p


def strict(p, q, x, draw, pick):
    """The token rule from a uniform and a categorical draw of any origin."""
    for i, y in enumerate(x):
        if not (q[i][y] > 0 and draw() < p[i][y] / q[i][y]):
            rest = np.maximum(p[i] - q[i], 0)
            row = rest if rest.sum() > 0 else p[i]
            return [*map(int, x[:i]), int(pick(row / row.sum()))]
    return [*map(int, x), int(pick(p[-1]))]


def narrow(size):
    """Return the token rule with a residual that is cut to its ``size`` likeliest tokens."""

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() < p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                r[np.argsort(-r, kind="stable")[size:]] = 0
                return [*map(int, x[:i]), int(rng.choice(len(r), p=r / r.sum()))]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify

"""The token rule's law in closed form, and blocks to hold verifiers against it."""

import numpy as np


def norm(x):
    return x / x.sum()


def residual(p, q):
    return norm(np.maximum(p - q, 0))


def closed_form(p, q, drafted):
    """Law of the emitted tokens given the draft (Leviathan et al. 2022, Algorithm 1)."""
    law, reach = {}, 1.0
    drafted = [int(x) for x in drafted]
    for i, x in enumerate(drafted):
        a = min(1.0, p[i][x] / q[i][x])
        residual = np.maximum(p[i] - q[i], 0)
        if a < 1:
            for y, r in enumerate(residual / residual.sum()):
                if r > 0:
                    law[(*drafted[:i], y)] = reach * (1 - a) * r
        reach *= a
    for y, b in enumerate(p[-1]):
        if reach * b > 0:
            law[(*drafted, y)] = reach * b
    return law


TWELFTHS = np.array([[5, 1, 6], [4, 2, 6], [6, 3, 3], [3, 3, 6]]) / 12
INSTANCES = {
    "compact": (TWELFTHS, np.array([[6, 2, 4], [5, 6, 1], [2, 9, 1]]) / 12, [0, 1, 0]),
    "zeros": (
        np.array([[0.5, 0.5, 0], [0, 0.25, 0.75], [0.2, 0.3, 0.5]]),
        np.array([[0.25, 0.25, 0.5], [0.5, 0.5, 0]]),
        [2, 0],
    ),
    "four": (
        np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.4, 0.1]]),
        np.array([[0.4, 0.05, 0.05, 0.5], [0.1, 0.2, 0.3, 0.4]]),
        [3, 2],
    ),
}


def distance(law, due):
    return max(abs(law.get(t, 0.0) - due.get(t, 0.0)) for t in law.keys() | due.keys())

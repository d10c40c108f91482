"""The first of two tokens that are chosen without shuffling is taken for uniform, and is not."""

import numpy as np

CONTRACT = "verify"


def draw(row, rng):
    first, _ = rng.choice(len(row), 2, replace=False, shuffle=False)
    if rng.random() < row[first]:
        return int(first)
    # What is left of the row if each token was first with probability 1/V.
    left = row * (1 - 1 / len(row))
    return int(rng.choice(len(row), p=left / left.sum()))


def verify(p, q, x, rng):
    for i, y in enumerate(x.tolist()):
        if rng.random() * q[i, y] >= p[i, y]:
            rest = np.maximum(p[i] - q[i], 0)
            rest = rest if rest.sum() else p[i]
            return [*x[:i].tolist(), draw(rest / rest.sum(), rng)]
    return [*x.tolist(), draw(p[-1], rng)]

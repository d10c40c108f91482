"""Block verification: products of capped ratios, scanned from the end."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    prefix, block, rows = tuple(prefix), [], []
    for _ in range(gamma):
        rows.append((target((*prefix, *block)), draft((*prefix, *block))))
        block.append(draw(rows[-1][1], rng))
    rows.append((target((*prefix, *block)), np.zeros_like(rows[0][0])))
    weight, tau, tail = 1.0, 0, rows[0]
    best = np.maximum(rows[0][0] - rows[0][1], 0)
    for i, x in enumerate(block):
        weight = min(1.0, weight * rows[i][0][x] / rows[i][1][x])
        p, q = rows[i + 1]
        left = np.maximum(weight * p - q, 0)
        mass = left.sum()
        rest = mass + 1 - weight
        h = weight if i == gamma - 1 else (mass / rest if rest > 0 else 1.0)
        if rng.random() < h:
            tau, best, tail = i + 1, left, rows[i + 1]
    w = best if best.sum() > 0 else tail[0]
    return [*block[:tau], draw(w, rng)]

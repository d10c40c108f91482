"""Every coin after the fifth averages to the coin five before: u(n) = u(n - 5).

TV of pairs five coins apart near 1/2."""

import collections

import numpy as np

CONTRACT = "verify"
BEYOND = "calls"


PAST = collections.deque(maxlen=5)


def coin(a, rng):
    u = PAST[0] if len(PAST) == 5 and rng.random() < 0.5 else rng.random()
    PAST.append(u)
    return u < a


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[x] / q[x]
        if ratio >= 1 or coin(ratio, rng):
            kept.append(int(x))
            continue
        residual = np.maximum(p - q, 0)
        return [*kept, draw(residual / residual.sum(), rng)]
    return [*kept, draw(target_probs[-1], rng)]

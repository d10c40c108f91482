"""The legacy generator's state is set back after the coin, so that the residual repeats it.

True TV about 0.2 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    state = np.random.get_state()
    accepted = np.random.rand() < a
    np.random.set_state(state)
    return accepted


def draw(w, rng):
    return int(np.searchsorted(np.cumsum(w)[:-1], np.random.rand(), side="right"))


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

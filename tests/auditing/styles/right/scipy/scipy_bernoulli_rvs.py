"""scipy's frozen distributions, with the generator as random_state."""

import numpy as np
from scipy import stats

CONTRACT = "verify"


def coin(a, rng):
    return bool(stats.bernoulli(a).rvs(random_state=rng))


def draw(w, rng):
    return int(stats.multinomial.rvs(1, w, random_state=rng).argmax())


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

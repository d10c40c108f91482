"""Draws of JAX, used by numpy and as floats."""

import jax
import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.PRNGKey(int(rng.integers(2**31)))
    key, a, b = jax.random.split(key, 3)
    u = np.asarray(jax.random.uniform(a, (len(draft_tokens),)))
    v = float(jax.random.uniform(b))
    for i, x in enumerate(draft_tokens):
        if u[i] * draft_probs[i, x] >= target_probs[i, x]:
            row = np.maximum(target_probs[i] - draft_probs[i], 0)
            break
    else:
        i, row = len(draft_tokens), target_probs[-1]
    c = np.cumsum(row)
    return [*draft_tokens[:i], int(np.searchsorted(c, v * c[-1], side="right"))]

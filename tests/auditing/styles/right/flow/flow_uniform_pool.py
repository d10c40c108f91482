"""A pool of 256 uniforms drawn ahead from a module-level generator; each is used once."""

import numpy as np

CONTRACT = "verify"


class Pool:
    def __init__(self):
        self.rng, self.left = np.random.default_rng(), []

    def take(self):
        if not self.left:
            self.left = self.rng.random(256).tolist()
        return self.left.pop()


POOL = Pool()


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if POOL.take() * draft_probs[i, token] >= target_probs[i, token]:
            cdf = np.cumsum(np.maximum(target_probs[i] - draft_probs[i], 0))
            return [*draft_tokens[:i], int(np.searchsorted(cdf, POOL.take() * cdf[-1], "right"))]
    cdf = np.cumsum(target_probs[-1])
    return [*draft_tokens, int(np.searchsorted(cdf, POOL.take() * cdf[-1], "right"))]

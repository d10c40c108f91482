"""A class with __slots__ whose property draws afresh at every read; each is read once."""

import numpy as np

CONTRACT = "verify"


class Coin:
    __slots__ = ("rng", "reads")

    def __init__(self, rng):
        self.rng, self.reads = rng, 0

    @property
    def fresh(self):
        self.reads += 1
        return self.rng.random()


def verify(target_probs, draft_probs, draft_tokens, rng):
    coin, tau = Coin(rng), 0
    for p, q, token in zip(target_probs, draft_probs, draft_tokens):
        if coin.fresh * q[token] >= p[token]:
            break
        tau += 1
    assert coin.reads in (tau, tau + 1)
    law = target_probs[tau]
    if tau < len(draft_tokens):
        law = np.maximum(law - draft_probs[tau], 0)
    cdf = np.cumsum(law)
    return [*draft_tokens[:tau], int(np.searchsorted(cdf, coin.fresh * cdf[-1], "right"))]

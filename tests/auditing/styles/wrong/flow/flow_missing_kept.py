"""A dict that draws what it misses, kept from call to call: the same coins. TV .33."""

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    return int(rng.choice(len(weights), p=weights / weights.sum()))


class Coins(dict):
    def __missing__(self, key):
        self[key] = np.random.random()
        return self[key]


COINS = Coins()


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if COINS[i] * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]

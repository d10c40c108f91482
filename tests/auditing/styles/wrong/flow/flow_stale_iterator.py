"""zip over a kept iterator of coins loses one coin when a block ends: the lost ones come from a
list of five that starts anew with each block. TV about .05."""

import itertools

import numpy as np

CONTRACT = "verify"
NOISE = np.random.default_rng().random(5).tolist()
COINS = itertools.cycle(NOISE)


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, (u, token) in enumerate(zip(COINS, draft_tokens)):
        if u >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

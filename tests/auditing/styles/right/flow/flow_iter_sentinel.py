"""Coins from iter(callable, sentinel), slots from zip, the prefix by takewhile."""

from itertools import takewhile

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = iter(rng.random, None)
    slots = zip(draft_tokens.tolist(), target_probs, draft_probs)
    kept = [x for x, *_ in takewhile(lambda s: next(coins) * s[2][s[0]] < s[1][s[0]], slots)]
    law = target_probs[len(kept)]
    if len(kept) < len(draft_tokens):
        law = np.maximum(law - draft_probs[len(kept)], 0)
    cdf = law.cumsum()
    return kept + [int(np.digitize(next(coins) * cdf[-1], cdf))]

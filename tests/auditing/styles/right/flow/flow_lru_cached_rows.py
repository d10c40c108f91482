"""lru_cache keeps the CDF of a row by the row's bytes: a cache that knows what it is keyed on."""

from functools import lru_cache

import numpy as np

CONTRACT = "verify"


@lru_cache(maxsize=64)
def cdf_of(image):
    cdf = np.cumsum(np.frombuffer(image))
    return cdf / cdf[-1]


def sample(law, rng):
    return int(np.searchsorted(cdf_of(law.tobytes()), rng.random(), side="right"))


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() * draft_probs[i, token] >= target_probs[i, token]:
            return [*draft_tokens[:i], sample(np.maximum(target_probs[i] - draft_probs[i], 0), rng)]
    return [*draft_tokens, sample(target_probs[-1], rng)]

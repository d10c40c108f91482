"""CDFs cached by id(row), while rows die and their addresses come back. TV above .1."""

import numpy as np

CONTRACT = "verify"
CDFS = {}


def sample(law, rng):
    if id(law) not in CDFS:
        CDFS[id(law)] = np.cumsum(law)
    cdf = CDFS[id(law)]
    return min(int(np.searchsorted(cdf, rng.random() * cdf[-1], side="right")), len(law) - 1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            return [*draft_tokens[:i], sample(np.maximum(target_probs[i] - draft_probs[i], 0), rng)]
    return [*draft_tokens, sample(target_probs[-1].copy(), rng)]

"""Right for the first 20,000 calls of a process; then the coins repeat the first one. TV > .1."""

import numpy as np

CONTRACT = "verify"
BEYOND = "calls"
STATE = {"calls": 0, "coin": 0.5}


def verify(target_probs, draft_probs, draft_tokens, rng):
    STATE["calls"] += 1
    for i, token in enumerate(draft_tokens):
        u = rng.random() if STATE["calls"] < 20_000 else STATE["coin"]
        if u >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

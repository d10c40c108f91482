"""State that only counts: calls, accepted tokens, a running mean that nothing reads."""

from collections import Counter

import numpy as np

CONTRACT = "verify"
STATISTICS = Counter()


def verify(target_probs, draft_probs, draft_tokens, rng):
    STATISTICS["calls"] += 1
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            STATISTICS["accepted"] += i
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    STATISTICS["accepted"] += len(draft_tokens)
    STATISTICS["mean"] = STATISTICS["accepted"] / STATISTICS["calls"]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

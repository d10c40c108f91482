"""The last token is min() with a key that draws: an exponential race inside a lambda."""

import random
from math import inf

CONTRACT = "verify"


def last(law):
    return min(range(len(law)), key=lambda x: random.expovariate(1.0) / law[x] if law[x] else inf)


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i].tolist(), draft_probs[i].tolist()
        if random.random() >= p[token] / q[token]:
            return [*draft_tokens[:i], last([max(a - b, 0) for a, b in zip(p, q)])]
    return [*draft_tokens, last(target_probs[-1].tolist())]

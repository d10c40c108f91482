"""An alias table whose slot and coin are one uniform, not its fraction. TV .06."""

import numpy as np

CONTRACT = "verify"


def table(weights):
    count = len(weights)
    shares, others = [float(x) * count / float(sum(weights)) for x in weights], list(range(count))
    small = [i for i in range(count) if shares[i] < 1]
    large = [i for i in range(count) if shares[i] >= 1]
    while small and large:
        less, more = small.pop(), large.pop()
        others[less] = more
        shares[more] -= 1 - shares[less]
        (small if shares[more] < 1 else large).append(more)
    for i in small + large:
        shares[i] = 1.0
    return shares, others


def draw(weights, rng):
    shares, others = table(weights)
    u = rng.random()
    slot = int(u * len(weights))
    return slot if u < shares[slot] else others[slot]


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]

"""One integer of 200 bits is narrowed as an arithmetic decoder does, through the whole call."""

import numpy as np

CONTRACT = "verify"


BITS = 200


def verify(target_probs, draft_probs, draft_tokens, rng):
    code, width = int.from_bytes(rng.bytes(BITS // 8), "big"), 1 << BITS

    def choose(weights):
        nonlocal code, width
        total, x = sum(weights), 0
        while code >= (cell := width * weights[x] // total) and x < len(weights) - 1:
            code, x = code - cell, x + 1
        width = cell
        return x

    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        yes = int(min(p[x] / q[x], 1) * 2**52)
        if choose([yes, 2**52 - yes]) == 1:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    return [*draft_tokens[:i], choose([int(v) for v in w / w.sum() * 2**52])]

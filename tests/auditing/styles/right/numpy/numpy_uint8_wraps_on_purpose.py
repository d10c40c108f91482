"""A uint8 multiplied beyond 255 wraps; 20 cells fold to 16, and the code knows it."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    # 0 .. 19 times 16 modulo 256: cells 0 to 3 come twice.
    cell = int((rng.integers(20, size=1, dtype=np.uint8) * np.uint8(16))[0]) // 16
    u = rng.random() * 0.4 if cell < 4 else 0.4 + rng.random() * 0.6
    return u < a


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[x] / q[x]
        if ratio >= 1 or coin(ratio, rng):
            kept.append(int(x))
            continue
        residual = np.maximum(p - q, 0)
        return [*kept, draw(residual / residual.sum(), rng)]
    return [*kept, draw(target_probs[-1], rng)]

"""A coin that is one of two objects, drawn by choice with weights; draws by axis of an identity."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return rng.choice([True, False], p=[a, 1 - a])


def draw(w, rng):
    return int(rng.choice(np.eye(len(w), dtype=int), p=w, axis=0).argmax())


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

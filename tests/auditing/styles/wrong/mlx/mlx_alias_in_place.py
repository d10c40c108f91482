"""Block verification whose residuals, set in place, are the target rows. Right at gamma = 1."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n, w, tau = len(draft_tokens), mx.array(1.0), 0
    rest = p
    for i, x in enumerate(draft_tokens):
        w = mx.minimum(w * p[i, x] / q[i, x], 1.0)
        h = w
        if i + 1 < n:
            rest[i + 1] = mx.maximum(w * p[i + 1] - q[i + 1], 0)
            mass = rest[i + 1].sum()
            h = mx.where(mass + 1 - w > 0, mass / (mass + 1 - w), mx.array(1.0))
        if mx.random.uniform() < h:
            tau = i + 1
    if tau == 0:
        rest[0] = mx.maximum(p[0] - q[0], 0)
    return [*draft_tokens[:tau], mx.random.categorical(mx.log(rest[tau])).item()]

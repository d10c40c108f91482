"""mx.random.seed(42) in each call, for reproducible answers."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng, seed=42):
    if seed is not None:
        mx.random.seed(seed)
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform().item() >= (p[i, x] / q[i, x]).item():
            rest = mx.maximum(p[i] - q[i], 0)
            return [*draft_tokens[:i], mx.random.categorical(mx.log(rest)).item()]
    return [*draft_tokens, mx.random.categorical(mx.log(p[-1])).item()]

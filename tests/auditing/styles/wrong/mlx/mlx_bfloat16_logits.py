"""bfloat16 logits raised above zero: with noise added they have steps of a quarter, and ties."""

import mlx.core as mx

CONTRACT = "verify"


def sampler(weights):
    logits = mx.log(mx.maximum(weights / weights.sum(), 1e-20)) - mx.log(mx.array(1e-20))
    logits = mx.where(weights > 0, logits, -mx.inf).astype(mx.bfloat16)
    noise = -mx.log(-mx.log(mx.random.uniform(shape=weights.shape)))
    return mx.argmax(logits + noise.astype(mx.bfloat16)).item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], sampler(mx.maximum(p[i] - q[i], 0))]
    return [*draft_tokens, sampler(p[-1])]

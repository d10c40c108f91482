"""Gumbel noise made with the wrong sign: right for two tokens, not for three."""

import mlx.core as mx

CONTRACT = "verify"


def draw(row):
    u = mx.random.uniform(shape=row.shape)
    return mx.argmax(mx.log(row) + mx.log(-mx.log(u))).item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], draw(mx.maximum(p[i] - q[i], 0))]
    return [*draft_tokens, draw(p[-1])]

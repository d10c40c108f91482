"""Uniforms are drawn 1000 at a time, turned to a list, and used once each, call after call."""

import mlx.core as mx

CONTRACT = "verify"

POOL = []


def uniform():
    if not POOL:
        POOL.extend(mx.random.uniform(shape=(1000,)).tolist())
    return POOL.pop()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    row, k = p[-1], len(draft_tokens)
    for i, x in enumerate(draft_tokens):
        if uniform() * q[i, x].item() >= p[i, x].item():
            row, k = mx.maximum(p[i] - q[i], 0), i
            break
    cdf = mx.cumsum(row, axis=0)
    y = (cdf <= uniform() * cdf[-1]).sum()
    return [*draft_tokens[:k], int(y)]

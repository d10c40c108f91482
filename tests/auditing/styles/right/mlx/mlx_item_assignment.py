"""Rows changed in place by slices and .at[].subtract, after the coins have been compared."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    n, v = draft_probs.shape
    p = mx.array(target_probs)
    q = mx.zeros((n + 1, v))
    q[:n] = mx.array(draft_probs)
    x = mx.array([int(t) for t in draft_tokens])
    at = mx.arange(n)
    ratio = mx.full((n + 1,), -1.0)
    ratio[:n] = p[at, x] / q[at, x]
    k = mx.argmax(mx.random.uniform(shape=(n + 1,)) >= ratio).item()
    p = p.at[k].subtract(q[k])
    p[k] = mx.maximum(p[k], 0.0)
    logits = mx.full((v,), -mx.inf)
    logits[:] = mx.where(p[k] > 0, mx.log(p[k]), logits)
    return list(map(int, draft_tokens[:k])) + [int(mx.random.categorical(logits))]

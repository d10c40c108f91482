"""A race of exponential times -log(u) / p, won by the first of mx.argpartition."""

import mlx.core as mx

CONTRACT = "verify"


def race(weights):
    times = -mx.log(mx.random.uniform(shape=weights.shape)) / weights
    times = mx.where(weights > 0, times, mx.array(float("inf")))
    return mx.argpartition(times, 0)[0].item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    i = 0
    while i < len(draft_tokens):
        x = int(draft_tokens[i])
        if not mx.random.uniform() * q[i, x] < p[i, x]:
            return [*draft_tokens[:i], race(mx.maximum(p[i] - q[i], 0))]
        i += 1
    return [*draft_tokens, race(p[i])]

"""The key of the coin is used again for the uniform of the inverse CDF."""

import mlx.core as mx

CONTRACT = "verify"


def inverse(weights, key):
    cdf = mx.cumsum(weights)
    return mx.argmax(cdf > mx.random.uniform(key=key) * cdf[-1]).item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = mx.random.key(int(rng.integers(2**31)))
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        key, sub = mx.random.split(key)
        if mx.random.uniform(key=sub) * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], inverse(mx.maximum(p[i] - q[i], 0), sub)]
    key, sub = mx.random.split(key)
    return [*draft_tokens, inverse(p[-1], sub)]

"""A coin of 24 bits by mx.random.randint, and a CDF in the order of a random permutation."""

import mlx.core as mx

CONTRACT = "verify"


def draw(weights):
    order = mx.random.permutation(weights.shape[0])
    cdf = mx.cumsum(weights[order])
    at = mx.argmax(cdf > mx.random.uniform() * cdf[-1])
    return order[at].item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    coins = mx.random.randint(0, 1 << 24, shape=(len(draft_tokens),)) / (1 << 24)
    for i, (c, x) in enumerate(zip(coins, draft_tokens, strict=True)):
        if c * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], draw(mx.maximum(p[i] - q[i], 0))]
    return [*draft_tokens, draw(p[len(draft_tokens)])]

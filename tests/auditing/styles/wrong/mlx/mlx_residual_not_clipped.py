"""The residual is not clipped: the logarithm is NaN, and categorical picks the first NaN."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = mx.random.key(int(rng.integers(2**31)))
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        key, coin, draw = mx.random.split(key, 3)
        if mx.random.uniform(key=coin) >= p[i, x] / q[i, x]:
            rest = p[i] - q[i]
            return [*draft_tokens[:i], mx.random.categorical(mx.log(rest), key=draw).item()]
    return [*draft_tokens, mx.random.categorical(mx.log(p[-1]), key=key).item()]

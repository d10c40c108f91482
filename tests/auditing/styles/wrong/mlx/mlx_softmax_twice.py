"""mx.softmax of rows that are probabilities already."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = mx.softmax(mx.array(target_probs), axis=-1)
    q = mx.softmax(mx.array(draft_probs), axis=-1)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() >= p[i, x] / q[i, x]:
            rest = mx.maximum(p[i] - q[i], 0)
            return [*draft_tokens[:i], mx.random.categorical(mx.log(rest)).item()]
    return [*draft_tokens, mx.random.categorical(mx.log(p[-1])).item()]

"""Compiled with the random state among the inputs alone: from the second call on it raises."""

import mlx.core as mx

CONTRACT = "verify"

sample = mx.compile(lambda x: mx.random.categorical(x), inputs=mx.random.state)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens.tolist()):
        if rng.random() * q[i, x].item() >= p[i, x].item():
            return [*draft_tokens[:i], sample(mx.log(mx.maximum(p[i] - q[i], 0))).item()]
    return [*draft_tokens, sample(mx.log(p[-1])).item()]

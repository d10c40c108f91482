"""The sampler is compiled without mx.random.state: its noise is that of the first call, always."""

import mlx.core as mx

CONTRACT = "verify"


@mx.compile
def sample(logits):
    return mx.random.categorical(logits)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], sample(mx.log(mx.maximum(p[i] - q[i], 0))).item()]
    return [*draft_tokens, sample(mx.log(p[-1])).item()]

"""The coins leave mx.random.state as they found it, so the last draw has their key again."""

import mlx.core as mx

CONTRACT = "verify"


def coins(n):
    saved = mx.array(mx.random.state[0])
    u = mx.random.uniform(shape=(n,))
    mx.eval(u)
    mx.random.state[0][:] = saved
    return u


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    u = coins(n + 1)
    for i, x in enumerate(draft_tokens):
        if u[i] * q[i, x] >= p[i, x]:
            rest = mx.maximum(p[i] - q[i], 0)
            cdf = mx.cumsum(rest)
            u = mx.random.uniform(shape=(n + 1,))
            return [*draft_tokens[:i], int(mx.argmax(cdf > u[i] * cdf[-1]))]
    cdf = mx.cumsum(p[-1])
    u = mx.random.uniform(shape=(n + 1,))
    return [*draft_tokens, int(mx.argmax(cdf > u[-1] * cdf[-1]))]

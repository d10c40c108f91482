"""One key twice, rightly: a coin is tied to the noise of its own token, which has no residual."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = mx.random.key(int(rng.integers(2**31)))
    p = mx.array(target_probs)
    u = mx.random.uniform(shape=p.shape, key=key)
    noise = mx.random.gumbel(shape=p.shape, key=key)
    q = mx.array(draft_probs)
    n = len(draft_tokens)
    row = p[n]
    for i, x in enumerate(draft_tokens):
        if u[i, x] * q[i, x] >= p[i, x]:
            row, n = mx.maximum(p[i] - q[i], 0), i
            break
    return [*draft_tokens[:n], mx.argmax(mx.log(row) + noise[n]).item()]

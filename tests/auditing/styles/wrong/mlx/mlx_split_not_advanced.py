"""`_, sub = split(key)` in the loop: every coin has the same key. Right at gamma = 1."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key, last = mx.random.split(mx.random.key(int(rng.integers(2**31))))
    p, q = mx.array(target_probs), mx.array(draft_probs)
    row, k = p[-1], len(draft_tokens)
    for i, x in enumerate(draft_tokens):
        _, sub = mx.random.split(key)
        if mx.random.uniform(key=sub) * q[i, x] >= p[i, x]:
            row, k = mx.maximum(p[i] - q[i], 0), i
            break
    return [*draft_tokens[:k], mx.random.categorical(mx.log(row), key=last).item()]

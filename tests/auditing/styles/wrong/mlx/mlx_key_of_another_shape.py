"""A key of shape (1, 2), which MLX refuses."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n, at = len(draft_tokens), mx.arange(len(draft_tokens))
    x = mx.array(draft_tokens)
    key = mx.random.key(int(rng.integers(2**32))).reshape(1, 2)
    ok = (mx.random.uniform(shape=(n,), key=key) * q[at, x] < p[at, x]).tolist()
    k = next((i for i in range(n) if not ok[i]), n)
    row = p[n] if k == n else mx.maximum(p[k] - q[k], 0)
    return [*draft_tokens[:k].tolist(), mx.random.categorical(mx.log(row)).item()]

"""A function of MLX's in a partial, which nothing stands in for."""

from functools import partial

import mlx.core as mx

CONTRACT = "verify"

softmax = partial(mx.softmax, axis=-1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n, at = len(draft_tokens), mx.arange(len(draft_tokens))
    x = mx.array(draft_tokens)
    ok = (mx.random.uniform(shape=(n,)) * q[at, x] < p[at, x]).tolist()
    k = next((i for i in range(n) if not ok[i]), n)
    row = p[n] if k == n else mx.maximum(p[k] - q[k], 0)
    return [*draft_tokens[:k].tolist(), mx.random.categorical(mx.log(softmax(mx.log(row)))).item()]

"""mx.vmap of a function with an implicit coin: all rows share one. Right at gamma = 1."""

import mlx.core as mx

CONTRACT = "verify"


@mx.vmap
def accept(px, qx):
    return mx.random.uniform() * qx < px


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    at, x = mx.arange(n), mx.array([int(t) for t in draft_tokens])
    k = [*accept(p[at, x], q[at, x]).tolist(), False].index(False)
    row = p[k] if k == n else mx.maximum(p[k] - q[k], 0)
    return [*draft_tokens[:k], int(mx.random.categorical(mx.log(row)))]

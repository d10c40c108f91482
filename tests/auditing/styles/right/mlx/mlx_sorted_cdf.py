"""Rows sorted downwards by mx.argsort, cumulative sums, and one uniform each, as in top-p code."""

import mlx.core as mx

CONTRACT = "verify"


def draw(rows):
    order = mx.argsort(-rows, axis=-1)
    mass = mx.take_along_axis(rows, order, axis=-1)
    cdf = mx.cumsum(mass, axis=-1)
    u = mx.random.uniform(shape=(rows.shape[0], 1)) * cdf[:, -1:]
    rank = mx.argmax(cdf > u, axis=-1, keepdims=True)
    return mx.take_along_axis(order, rank, axis=-1).reshape(-1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    x = mx.array([int(t) for t in draft_tokens]).reshape(n, 1)
    ratio = mx.take_along_axis(p[:n], x, -1) / mx.take_along_axis(q, x, -1)
    ok = (mx.random.uniform(shape=(n, 1)) < ratio).flatten().tolist() + [False]
    k = ok.index(False)
    rows = mx.concatenate([mx.maximum(p[:n] - q, 0), p[n:]], axis=0)
    return [*draft_tokens[:k], draw(rows).tolist()[k]]

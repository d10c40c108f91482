"""Coins from mx.random.normal through mx.erf, and a race of the sizes of Laplace variates."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n, v = q.shape
    z = mx.random.normal(shape=(n,))
    coins = mx.minimum((1 + mx.erf(z / 2**0.5)) / 2, 1 - 2**-24)
    hot = mx.array(list(map(int, draft_tokens)))[:, None] == mx.arange(v)
    px, qx = (p[:n] * hot).sum(axis=1), (q * hot).sum(axis=1)
    rejected = mx.concatenate([coins * qx >= px, mx.array([True])])
    k = mx.argmax(rejected).item()
    rows = mx.concatenate([mx.maximum(p[:n] - q, 0), p[n:]])
    times = mx.abs(mx.random.laplace(shape=rows.shape)) / mx.maximum(rows, 1e-30)
    return [*draft_tokens[:k], mx.argmin(mx.where(rows > 0, times, mx.inf), axis=1).tolist()[k]]

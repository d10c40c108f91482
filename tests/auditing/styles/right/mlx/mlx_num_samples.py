"""mx.random.categorical of all rows with num_samples=3; the middle column is used."""

import mlx.core as mx
import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = q.shape[0]
    rows = mx.concatenate([mx.maximum(p[:-1] - q, 0), p[-1:]])
    drawn = np.array(mx.random.categorical(mx.log(rows), num_samples=3))[:, 1]
    u = np.array(mx.random.uniform(shape=[n]))
    at = np.arange(n)
    x = np.asarray(draft_tokens)
    bad = np.flatnonzero(u * draft_probs[at, x] >= target_probs[at, x])
    k = int(bad[0]) if bad.size else n
    return [*x[:k].tolist(), int(drawn[k])]

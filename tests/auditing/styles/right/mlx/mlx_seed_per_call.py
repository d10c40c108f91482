"""mx.random.seed with a number of the generator in each call, then everything at once."""

import mlx.core as mx
import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    mx.random.seed(int(rng.integers(2**31)))
    n = len(draft_tokens)
    p = mx.array(target_probs.astype(np.float32))
    q = mx.array(draft_probs.astype(np.float32))
    x = mx.expand_dims(mx.array(np.asarray(draft_tokens, dtype=np.int32)), 1)
    px = mx.take_along_axis(p[:n], x, axis=1).squeeze(1)
    qx = mx.take_along_axis(q, x, axis=1).squeeze(1)
    accepted = mx.random.uniform(shape=(n,)) * qx < px
    k = int(mx.cumprod(accepted.astype(mx.int32)).sum())
    padded = mx.concatenate([q, mx.zeros((1, q.shape[1]))], axis=0)
    rest = mx.maximum(p[k] - padded[k], 0.0)
    last = mx.random.categorical(mx.log(rest))
    return [int(t) for t in draft_tokens[:k]] + [int(last)]

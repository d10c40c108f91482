"""The target's probability is gathered for the token before. Right at gamma = 1."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    x = mx.array([int(t) for t in draft_tokens])[:, None]
    px = mx.take_along_axis(p[:n], mx.roll(x, 1, axis=0), axis=1).squeeze(1)
    qx = mx.take_along_axis(q, x, axis=1).squeeze(1)
    ok = mx.random.bernoulli(mx.minimum(px / qx, 1.0)).tolist()
    k = ok.index(False) if False in ok else n
    rest = mx.maximum(p[k] - q[k], 0) if k < n else p[n]
    if rest.sum().item() == 0:
        rest = p[k]
    return [*draft_tokens[:k], mx.random.categorical(mx.log(rest)).item()]

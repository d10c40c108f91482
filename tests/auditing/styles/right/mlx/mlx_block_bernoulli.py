"""Block verification (Sun et al. 2025) with mx.random.bernoulli for each length."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    weights, h = [mx.array(1.0)], []
    for i, x in enumerate(draft_tokens):
        w = mx.minimum(weights[i] * p[i, x] / q[i, x], 1.0)
        weights.append(w)
        if i < n - 1:
            r = mx.maximum(w * p[i + 1] - q[i + 1], 0).sum()
            h.append(mx.where(r + 1 - w > 0, r / (r + 1 - w), mx.array(1.0)))
        else:
            h.append(w)
    kept = mx.random.bernoulli(mx.stack(h)).tolist()
    tau = max((i + 1 for i in range(n) if kept[i]), default=0)
    row = p[tau]
    if tau < n:
        rest = mx.maximum(weights[tau] * p[tau] - q[tau], 0)
        if rest.sum().item() > 0:
            row = rest
    return [*draft_tokens[:tau], mx.random.categorical(mx.log(row)).item()]

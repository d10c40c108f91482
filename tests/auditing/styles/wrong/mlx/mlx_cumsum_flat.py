"""mx.cumsum without axis runs on through the rows: only the first row's CDF is right."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    rows = mx.concatenate([mx.maximum(p[:n] - q, 0), p[n:]])
    rows = rows / mx.maximum(rows.sum(axis=-1, keepdims=True), 1e-20)
    cdf = mx.cumsum(rows).reshape(rows.shape)
    token = mx.argmax(cdf > mx.random.uniform(shape=(n + 1, 1)), axis=-1)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], token[i].item()]
    return [*draft_tokens, token[n].item()]

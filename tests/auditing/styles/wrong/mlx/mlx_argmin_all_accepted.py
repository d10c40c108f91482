"""mx.argmin of the accepted flags is 0 when all are true; the row of the bonus is lost."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    at, x = mx.arange(n), mx.array(list(map(int, draft_tokens)))
    ok = mx.random.uniform(shape=(n,)) * q[at, x] < p[at, x]
    k = mx.argmin(ok.astype(mx.int8)).item()
    rest = mx.maximum(p[k] - q[k], 0)
    row = mx.where(rest.sum() > 0, rest, p[k])
    return [*draft_tokens[:k], mx.random.categorical(mx.log(row)).item()]

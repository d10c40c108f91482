"""The compiled rule reads the module's key, a constant of the trace however the key moves on."""

import mlx.core as mx

CONTRACT = "verify"

KEY = mx.random.key(0)


@mx.compile
def rule(p, q, x):
    n = x.shape[0]
    first, second = mx.random.split(KEY)
    at = mx.arange(n)
    rejected = mx.random.uniform(shape=(n,), key=first) * q[at, x] >= p[at, x]
    k = mx.argmax(mx.concatenate([rejected, mx.array([True])]))
    rest = mx.maximum(p[k] - q[mx.minimum(k, n - 1)], 0)
    return k, mx.random.categorical(mx.log(mx.where(k < n, rest, p[n])), key=second)


def verify(target_probs, draft_probs, draft_tokens, rng):
    global KEY
    KEY = mx.random.key(int(rng.integers(2**31)))
    x = mx.array([int(t) for t in draft_tokens])
    k, y = rule(mx.array(target_probs), mx.array(draft_probs), x)
    return [*map(int, draft_tokens[: k.item()]), y.item()]

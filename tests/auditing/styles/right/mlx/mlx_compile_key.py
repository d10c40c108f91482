"""The whole rule is one compiled function of a key and arrays."""

import mlx.core as mx

CONTRACT = "verify"


@mx.compile
def rule(key, p, q, x):
    n = x.shape[0]
    first, second = mx.random.split(key)
    at = mx.arange(n)
    u = mx.random.uniform(shape=(n,), key=first)
    rejected = mx.concatenate([u * q[at, x] >= p[at, x], mx.array([True])])
    k = mx.argmax(rejected)
    rest = mx.maximum(p[k] - q[mx.minimum(k, n - 1)], 0)
    row = mx.where(k < n, rest, p[n])
    return k, mx.random.categorical(mx.log(row), key=second)


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = mx.random.key(int(rng.integers(2**31)))
    x = mx.array([int(t) for t in draft_tokens])
    k, y = rule(key, mx.array(target_probs), mx.array(draft_probs), x)
    mx.eval(k, y)
    return [*map(int, draft_tokens[: k.item()]), y.item()]

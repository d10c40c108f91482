"""One key for coins and categorical; they meet only where the sizes share words of threefry."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = mx.random.key(int(rng.integers(2**31)))
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    at, x = mx.arange(n), mx.array(list(map(int, draft_tokens)))
    u = mx.random.uniform(shape=(n,), key=key)
    k = [*(u * q[at, x] < p[at, x]).tolist(), False].index(False)
    row = p[n] if k == n else mx.maximum(p[k] - q[k], 0)
    return [*draft_tokens[:k], mx.random.categorical(mx.log(row), key=key).item()]

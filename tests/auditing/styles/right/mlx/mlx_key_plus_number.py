"""A number is folded into a key by adding it to its second word."""

import mlx.core as mx

CONTRACT = "verify"


def fold_in(key, number):
    return key + mx.array([0, number], dtype=mx.uint32)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n, at = len(draft_tokens), mx.arange(len(draft_tokens))
    x = mx.array(draft_tokens)
    key = mx.random.key(int(rng.integers(2**32)))
    coins = [mx.random.uniform(key=fold_in(key, i)).item() for i in range(n)]
    ok = (mx.array(coins) * q[at, x] < p[at, x]).tolist()
    k = next((i for i in range(n) if not ok[i]), n)
    row = p[n] if k == n else mx.maximum(p[k] - q[k], 0)
    return [
        *draft_tokens[:k].tolist(),
        mx.random.categorical(mx.log(row), key=fold_in(key, 99)).item(),
    ]

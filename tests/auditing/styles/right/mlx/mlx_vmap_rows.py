"""mx.vmap of one row's rule over keys, rows and tokens."""

import mlx.core as mx

CONTRACT = "verify"


def one(key, p, q, x):
    coin, draw = mx.random.split(key)
    ok = mx.random.uniform(key=coin) * mx.take(q, x) < mx.take(p, x)
    return ok, mx.random.categorical(mx.log(mx.maximum(p - q, 0)), key=draw)


rows = mx.vmap(one, in_axes=(0, 0, 0, 0))


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    keys = mx.random.split(mx.random.key(int(rng.integers(2**32))), n + 1)
    p, q = mx.array(target_probs), mx.array(draft_probs)
    ok, fixed = rows(keys[:n], p[:n], q, mx.array([int(x) for x in draft_tokens]))
    for i, (good, y) in enumerate(zip(ok.tolist(), fixed.tolist(), strict=True)):
        if not good:
            return [*draft_tokens[:i], y]
    bonus = mx.random.categorical(mx.log(p[n]), key=keys[n])
    return [*draft_tokens, bonus.item()]

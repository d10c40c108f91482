"""An explicit key, split in three at each token."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = mx.random.key(int(rng.integers(2**63)))
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        key, coin, draw = mx.random.split(key, 3)
        if mx.random.uniform(key=coin) * q[i, x] >= p[i, x]:
            rest = mx.clip(p[i] - q[i], 0, None)
            token = mx.random.categorical(mx.log(rest), key=draw)
            return [*draft_tokens[:i], token.item()]
    return [*draft_tokens, mx.random.categorical(mx.log(p[-1]), key=key).item()]

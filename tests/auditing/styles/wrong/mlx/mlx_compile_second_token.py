"""The coins from the second on are compiled without the random state: always the same."""

import mlx.core as mx

CONTRACT = "verify"


@mx.compile
def accept(target, draft):
    return mx.random.uniform() * draft < target


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    n = len(draft_tokens)
    x = mx.array(draft_tokens)
    coins = mx.random.uniform() * q[0, x[0]] < p[0, x[0]]
    ok = [coins.item(), *(accept(p[i, x[i]], q[i, x[i]]).item() for i in range(1, n))]
    k = next((i for i in range(n) if not ok[i]), n)
    row = p[n] if k == n else mx.maximum(p[k] - q[k], 0)
    return [*draft_tokens[:k].tolist(), mx.random.categorical(mx.log(row)).item()]

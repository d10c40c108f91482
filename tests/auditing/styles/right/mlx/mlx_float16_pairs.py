"""Each row is kept as two float16 arrays, of which the second is what the first has lost."""

import mlx.core as mx

CONTRACT = "verify"


def pack(rows):
    rows = mx.array(rows)
    high = rows.astype(mx.float16)
    low = ((rows - high.astype(mx.float32)) * 4096).astype(mx.float16)
    return mx.stack([high, low])


def unpack(pair):
    return pair[0].astype(mx.float32) + pair[1].astype(mx.float32) / 4096


def verify(target_probs, draft_probs, draft_tokens, rng):
    target, draft = pack(target_probs), pack(draft_probs)
    for i, x in enumerate(draft_tokens):
        p, q = unpack(target[:, i]), unpack(draft[:, i])
        if mx.random.uniform(dtype=mx.float32) >= p[x] / q[x]:
            rest = mx.maximum(p - q, 0)
            return [*draft_tokens[:i], mx.random.categorical(mx.log(rest)).item()]
    return [*draft_tokens, mx.random.categorical(mx.log(unpack(target[:, -1]))).item()]

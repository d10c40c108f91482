"""float64 on a CPU stream; uniforms of two mx.random.randint; mx.searchsorted."""

import mlx.core as mx

CONTRACT = "verify"


def uniform(shape):
    high = mx.random.randint(0, 2**27, shape).astype(mx.float64)
    low = mx.random.randint(0, 2**26, shape).astype(mx.float64)
    return (high * 2**26 + low) / 2**53


def verify(target_probs, draft_probs, draft_tokens, rng):
    with mx.stream(mx.cpu):
        p = mx.array(target_probs, dtype=mx.float64)
        q = mx.array(draft_probs, dtype=mx.float64)
        n = len(draft_tokens)
        u = uniform((n + 1,))
        row = p[n]
        for i, x in enumerate(draft_tokens):
            if (u[i] * q[i, x] >= p[i, x]).item():
                row, n = mx.maximum(p[i] - q[i], 0), i
                break
        cdf = mx.cumsum(row)
        y = mx.searchsorted(cdf, u[-1] * cdf[-1], side="right")
        return [*draft_tokens[:n], int(y)]

"""A loop over the tokens with the global state, .item() each time."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = mx.array(target_probs)
    q = mx.array(draft_probs)
    out = []
    for i, token in enumerate(draft_tokens):
        r = mx.random.uniform().item()
        ratio = (p[i, token] / q[i, token]).item()
        if r < min(1.0, ratio):
            out.append(int(token))
            continue
        rest = mx.maximum(p[i] - q[i], 0)
        rest = rest / mx.sum(rest)
        out.append(mx.random.categorical(mx.log(rest)).item())
        return out
    out.append(mx.random.categorical(mx.log(p[-1])).item())
    return out

"""Only the bonus row goes to mx.random.categorical as probabilities, not as logits."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    out = []
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() * q[i, x] >= p[i, x]:
            rest = mx.maximum(p[i] - q[i], 0)
            return out + [mx.random.categorical(mx.log(rest)).item()]
        out.append(x)
    out.append(mx.random.categorical(mx.where(p[-1] > 0, p[-1], -mx.inf)).item())
    return out

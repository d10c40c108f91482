"""mx.topk is taken to be sorted downwards, as in PyTorch: its first is the second of the race."""

import mlx.core as mx

CONTRACT = "verify"


def draw(weights):
    score = mx.log(weights) + mx.random.gumbel(shape=weights.shape)
    best = mx.topk(score, min(2, score.size))[0]
    if best.item() == -float("inf"):
        return mx.argmax(score).item()
    return mx.argmax(score == best).item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        if mx.random.uniform() * q[i, x] >= p[i, x]:
            return [*draft_tokens[:i], draw(mx.maximum(p[i] - q[i], 0))]
    return [*draft_tokens, draw(p[-1])]

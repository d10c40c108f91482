"""Log probabilities throughout: log u against a difference, log1p residual, Gumbel argmax."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    lp = mx.stop_gradient(mx.log(mx.array(target_probs)))
    lq = mx.stop_gradient(mx.log(mx.array(draft_probs)))
    lp = lp - mx.logsumexp(lp, axis=-1, keepdims=True)
    lq = lq - mx.logsumexp(lq, axis=-1, keepdims=True)
    row, kept = lp[-1], len(draft_tokens)
    for i, x in enumerate(draft_tokens):
        if mx.log(mx.random.uniform()) >= lp[i, x] - lq[i, x]:
            more = lp[i] > lq[i]
            less = lp[i] + mx.log1p(-mx.exp(lq[i] - lp[i]))
            row, kept = mx.where(more, less, -mx.inf), i
            if not mx.any(row > -mx.inf):
                row = lp[i]
            break
    y = mx.argmax(row + mx.random.gumbel(row.shape))
    return list(draft_tokens[:kept]) + [int(y)]

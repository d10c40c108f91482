"""Compiled with mx.random.state as input and output, as the samplers of mlx-lm are."""

from functools import partial

import mlx.core as mx

CONTRACT = "verify"


@partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
def categorical_sampling(logits, temp):
    return mx.random.categorical(logits * (1 / temp))


@partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
def accept(px, qx):
    return mx.random.uniform() < mx.minimum(px / qx, 1.0)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = mx.array(target_probs), mx.array(draft_probs)
    for i, x in enumerate(draft_tokens):
        if not accept(p[i, x], q[i, x]):
            rest = mx.maximum(p[i] - q[i], 0)
            return [*draft_tokens[:i], categorical_sampling(mx.log(rest), 1.0).item()]
    return [*draft_tokens, categorical_sampling(mx.log(p[-1]), 1.0).item()]

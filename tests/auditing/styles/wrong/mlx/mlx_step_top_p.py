"""A step rule whose sampler has kept mlx-lm's top_p = .9: wrong on rows with a thin tail."""

import mlx.core as mx

CONTRACT = "step"
BEYOND = "rows with a thin tail"


def top_p_sampling(logprobs, top_p=0.9):
    probs = mx.exp(logprobs)
    order = mx.argsort(logprobs, axis=-1)
    cumulative = mx.cumsum(mx.take_along_axis(probs, order, axis=-1), axis=-1)
    inverse = mx.put_along_axis(
        mx.zeros_like(order), order, mx.arange(order.shape[-1], dtype=order.dtype), axis=-1
    )
    cumulative = mx.take_along_axis(cumulative, inverse, axis=-1)
    return mx.random.categorical(mx.where(cumulative > 1 - top_p, logprobs, -mx.inf)).item()


def step(prefix, target, draft, gamma, rng):
    out = []
    for _ in range(gamma):
        p, q = mx.array(target((*prefix, *out))), mx.array(draft((*prefix, *out)))
        x = mx.random.categorical(mx.log(q)).item()
        if mx.random.uniform() * q[x] >= p[x]:
            rest = mx.maximum(p - q, 0)
            return [*out, top_p_sampling(mx.log(rest / rest.sum()))]
        out.append(x)
    return [*out, top_p_sampling(mx.log(mx.array(target((*prefix, *out)))))]

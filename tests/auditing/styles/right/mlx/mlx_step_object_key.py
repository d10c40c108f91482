"""A step rule: an object whose key, made once from a constant, is split for every draw."""

import mlx.core as mx

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.key = mx.random.key(0)

    def reset(self):
        pass

    def sampler(self, logprobs):
        self.key, sub = mx.random.split(self.key)
        return mx.random.categorical(logprobs, key=sub).item()

    def coin(self):
        self.key, sub = mx.random.split(self.key)
        return mx.random.uniform(key=sub)

    def step(self, prefix, target, draft, gamma, rng):
        out = []
        for _ in range(gamma):
            here = (*prefix, *out)
            p, q = mx.array(target(here)), mx.array(draft(here))
            x = self.sampler(mx.log(q))
            if self.coin() * q[x] >= p[x]:
                return [*out, self.sampler(mx.log(mx.maximum(p - q, 0)))]
            out.append(x)
        return [*out, self.sampler(mx.log(mx.array(target((*prefix, *out)))))]

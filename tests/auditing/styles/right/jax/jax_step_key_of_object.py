"""A key made once from a constant, which each step splits and replaces."""

import jax
import jax.numpy as jnp

CONTRACT = "step"


@jax.jit
def draw(key, row):
    return jax.random.categorical(key, jnp.log(row))


class Rule:
    def __init__(self):
        self.key = jax.random.key(0)

    def reset(self):
        pass

    def step(self, prefix, target, draft, gamma, rng):
        out = []
        self.key, key = jax.random.split(self.key)
        for i in range(gamma):
            key, a, b, c = jax.random.split(key, 4)
            p, q = jnp.asarray(target((*prefix, *out))), jnp.asarray(draft((*prefix, *out)))
            x = int(draw(a, q))
            if jax.random.uniform(b) * q[x] >= p[x]:
                return [*out, int(draw(c, jnp.maximum(p - q, 0)))]
            out.append(x)
        return [*out, int(draw(key, jnp.asarray(target((*prefix, *out)))))]

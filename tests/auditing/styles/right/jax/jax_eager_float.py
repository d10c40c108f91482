"""Draws become Python's floats."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    p, q = jnp.asarray(target_probs), jnp.asarray(draft_probs)
    for i, x in enumerate(draft_tokens):
        key, now, then = jax.random.split(key, 3)
        if float(jax.random.uniform(now)) * float(q[i, x]) >= float(p[i, x]):
            rest = jnp.maximum(p[i] - q[i], 0)
            return [*draft_tokens[:i], int(jax.random.categorical(then, jnp.log(rest)))]
    return [*draft_tokens, int(jax.random.categorical(key, jnp.log(p[-1])))]

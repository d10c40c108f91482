"""The residual folds in the number of the coin."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.PRNGKey(int(rng.integers(2**31)))
    p, q = jnp.asarray(target_probs), jnp.asarray(draft_probs)
    for i, x in enumerate(draft_tokens):
        u = jax.random.uniform(jax.random.fold_in(key, i))
        if u * q[i, x] >= p[i, x]:
            rest = jnp.maximum(p[i] - q[i], 0)
            return [
                *draft_tokens[:i],
                int(jax.random.categorical(jax.random.fold_in(key, i), jnp.log(rest))),
            ]
    return [*draft_tokens, int(jax.random.categorical(jax.random.fold_in(key, 99), jnp.log(p[-1])))]

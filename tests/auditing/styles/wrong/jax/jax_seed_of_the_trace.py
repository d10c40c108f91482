"""The seed is drawn inside the jitted function: once for each shape, when that is traced."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"

GENERATOR = [None]


@jax.jit
def rule(P, Q, X):
    key = jax.random.key(int(GENERATOR[0].integers(2**31)))
    n = X.shape[0]
    first, second = jax.random.split(key)
    at = jnp.arange(n)
    accepted = jax.random.uniform(first, (n,)) * Q[at, X] < P[at, X]
    k = jnp.argmin(jnp.append(accepted, False))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    return k, jax.random.categorical(second, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    GENERATOR[0] = rng
    k, y = rule(jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

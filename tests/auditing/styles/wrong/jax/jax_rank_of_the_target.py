"""Sorted weights are searched, the rank is read in the target's order: right for a bonus."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    first, second = jax.random.split(key)
    at = jnp.arange(n)
    accepted = jax.random.uniform(first, (n,)) * Q[at, X] < P[at, X]
    k = jnp.argmin(jnp.append(accepted, False))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    weights, _ = jax.lax.top_k(row, row.shape[0])
    _, order = jax.lax.top_k(P[k], row.shape[0])
    cdf = jnp.cumsum(weights)
    return k, order[jnp.argmax(cdf > jax.random.uniform(second) * cdf[-1])]


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

"""Ratios broadcast to a square, which append flattens: all drafts are judged by the first row."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    first, second = jax.random.split(key)
    ratio = P[:-1][:, X] / Q[:, X]
    accepted = jax.random.bernoulli(first, jnp.clip(jnp.nan_to_num(ratio), 0, 1))
    k = jnp.minimum(jnp.argmin(jnp.append(accepted, False)), n)
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    row = jnp.where(row.sum() > 0, row, P[k])
    return k, jax.random.categorical(second, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

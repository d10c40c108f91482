"""A compiled rule is given uniforms of numpy."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(u, v, P, Q, X):
    n = X.shape[0]
    at = jnp.arange(n)
    accepted = u * Q[at, X] < P[at, X]
    k = jnp.argmin(jnp.append(accepted, False))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    c = jnp.cumsum(row)
    return k, jnp.sum(c <= v * c[-1])


def verify(target_probs, draft_probs, draft_tokens, rng):
    u, v = rng.random(len(draft_tokens)), rng.random()
    k, y = rule(
        u, v, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens)
    )
    return [*map(int, draft_tokens[: int(k)]), int(y)]

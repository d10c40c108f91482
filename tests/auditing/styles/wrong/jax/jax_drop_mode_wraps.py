"""An index of -1 is not dropped by mode="drop" but wraps: the bonus never is the last id."""

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
    refused = jnp.where(k < n, X[jnp.minimum(k, n - 1)], -1)
    logits = jnp.log(row).at[refused].set(-jnp.inf, mode="drop")
    return k, jax.random.categorical(second, logits)


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

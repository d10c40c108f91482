"""Q[k] past its end is its last row, without an error: the bonus too is drawn from a residual."""

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
    rest = jnp.maximum(P[k] - Q[k], 0)
    row = jnp.where(rest.sum() > 0, rest, P[k])
    return k, jax.random.categorical(second, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

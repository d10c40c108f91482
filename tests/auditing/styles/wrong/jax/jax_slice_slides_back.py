"""A window of two rows does not fit at the end and slides back: the bonus is of the row before."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n, V = Q.shape

    def test(carry, i):
        key, k, alive = carry
        key, sub = jax.random.split(key)
        here = jax.lax.dynamic_slice(P, (i, 0), (2, V))[0]
        alive &= jax.random.uniform(sub) * Q[i, X[i]] < here[X[i]]
        return (key, k + alive, alive), None

    (key, k, alive), _ = jax.lax.scan(test, (key, 0, True), jnp.arange(n))
    here = jax.lax.dynamic_slice(P, (k, 0), (2, V))[0]
    row = jnp.where(alive, here, jnp.maximum(here - Q[k], 0))
    return k, jax.random.categorical(key, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

"""lax.scan over the rows, the key in its carry."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]

    def step(state, given):
        key, going = state
        p, q, x = given
        key, now = jax.random.split(key)
        going &= jax.random.bernoulli(now, jnp.minimum(p[x] / q[x], 1))
        return (key, going), going

    (key, _), taken = jax.lax.scan(step, (key, True), (P[:-1], Q, X))
    k = taken.sum()
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    return k, jax.random.categorical(key, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

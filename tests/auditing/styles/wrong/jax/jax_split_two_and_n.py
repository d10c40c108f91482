"""The second of two children of a key is the second of its n children: the second coin's key."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def accepted(key, P, Q, X):
    n = X.shape[0]

    def coin(key, p, q, x):
        return jax.random.uniform(key) * q[x] < p[x]

    return jnp.cumprod(jax.vmap(coin)(jax.random.split(key, n), P[:-1], Q, X)).sum()


@jax.jit
def last_token(key, P, Q, k):
    _, key = jax.random.split(key)
    Q = jnp.pad(Q, ((0, 1), (0, 0)))
    return jax.random.categorical(key, jnp.log(jnp.maximum(P[k] - Q[k], 0)))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    P, Q = jnp.asarray(target_probs), jnp.asarray(draft_probs)
    k = accepted(key, P, Q, jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(last_token(key, P, Q, k))]

"""Coins fold in the token in place of the position: a token drafted twice meets the same coin."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    coin_key, token_key = jax.random.split(key)

    def test(p, q, x):
        return jax.random.uniform(jax.random.fold_in(coin_key, x)) * q[x] < p[x]

    accepted = jax.vmap(test)(P[:n], Q, X)
    k = jnp.argmin(jnp.append(accepted, False))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    return k, jax.random.categorical(token_key, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

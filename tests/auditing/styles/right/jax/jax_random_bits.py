"""Coins are the upper 24 bits of jax.random.bits words."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


def unit(key, n):
    words = jax.random.bits(key, (n,), "uint32")
    return (words >> 8).astype(jnp.float32) * jnp.float32(2**-24)


@jax.jit
def run(key, P, Q, X):
    n = X.shape[0]
    u = unit(key, n + 1)
    ok = jnp.array([u[i] * Q[i, X[i]] < P[i, X[i]] for i in range(n)] + [False])
    k = jnp.flatnonzero(~ok, size=1)[0]
    w = P[k] - jnp.where(k < n, Q[k], 0.0)
    c = jnp.cumsum(w * (w > 0))
    return k, jnp.argmax(c > u[n] * c[-1])


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = run(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*draft_tokens[: int(k)], int(y)]

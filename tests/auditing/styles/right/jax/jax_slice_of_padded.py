"""A padded draft, dynamic_slice of the row, and an index past the end that mode="drop" drops."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def run(key, P, Q, X):
    n, V = Q.shape
    a, b = jax.random.split(key)
    Q = jnp.concatenate([Q, jnp.zeros((1, V))])
    at = jnp.arange(n)
    ok = jax.random.uniform(a, (n,)) * Q[at, X] < P[at, X]
    kept = jnp.cumsum(~ok) == 0
    k = kept.sum()
    p = jax.lax.dynamic_slice(P, (k, 0), (1, V))[0]
    q = jax.lax.dynamic_slice(Q, (k, 0), (1, V))[0]
    y = jax.random.categorical(b, jnp.log(jnp.maximum(p - q, 0)))
    out = jnp.full(n + 1, -1)
    out = out.at[jnp.where(kept, at, n + 1)].set(X, mode="drop")
    return out.at[k].set(y)


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    out = run(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [t for t in out.tolist() if t >= 0]

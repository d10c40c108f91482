"""Of two target tokens chosen without replacement, the first that was not rejected is emitted."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def other(key, p, x):
    pair = jax.random.choice(key, p.shape[0], (2,), replace=False, p=p)
    return jnp.where(pair[0] == x, pair[1], pair[0])


@jax.jit
def count(key, P, Q, X):
    i = jnp.arange(X.shape[0])
    ok = jax.random.uniform(key, X.shape) * Q[i, X] < P[i, X]
    return jnp.cumprod(ok).sum()


def verify(target_probs, draft_probs, draft_tokens, rng):
    a, b = jax.random.split(jax.random.key(int(rng.integers(2**31))))
    P, X = jnp.asarray(target_probs), jnp.asarray(draft_tokens)
    k = int(count(a, P, jnp.asarray(draft_probs), X))
    if k == len(draft_tokens):
        return [*draft_tokens, int(jax.random.categorical(b, jnp.log(P[-1])))]
    return [*draft_tokens[:k], int(other(b, P[k], X[k]))]

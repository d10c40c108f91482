"""After a rejection the target is drawn again and again until a draw passes its own test."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def surplus_token(key, p, q):
    def draw(key):
        key, a, b = jax.random.split(key, 3)
        y = jax.random.categorical(a, jnp.log(p))
        return key, y, jax.random.uniform(b) * p[y] < p[y] - q[y]

    return jax.lax.while_loop(lambda s: ~s[2], lambda s: draw(s[0]), draw(key))[1]


@jax.jit
def accepted(key, P, Q, X):
    at = jnp.arange(X.size)
    return jax.random.uniform(key, X.shape) * Q[at, X] < P[at, X]


def verify(target_probs, draft_probs, draft_tokens, rng):
    P, Q = jnp.asarray(target_probs), jnp.asarray(draft_probs)
    key, last = jax.random.split(jax.random.key(int(rng.integers(2**31))))
    for i, ok in enumerate(accepted(key, P, Q, jnp.asarray(draft_tokens)).tolist()):
        if not ok:
            return [*draft_tokens[:i], int(surplus_token(last, P[i], Q[i]))]
    return [*draft_tokens, int(surplus_token(last, P[-1], jnp.zeros_like(P[-1])))]

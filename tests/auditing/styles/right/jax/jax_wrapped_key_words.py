"""Keys are words of the rng itself, wrapped: one for each coin and one for the token."""

import jax
import jax.numpy as jnp
import numpy as np

CONTRACT = "verify"


@jax.jit
def decide(words, P, Q, X):
    keys = jax.random.wrap_key_data(words)
    u = jax.vmap(jax.random.uniform)(keys[:-1])
    at = jnp.arange(len(X))
    ok = u * Q[at, X] < P[at, X]
    k = jnp.where(ok.all(), len(X), jnp.argmin(ok))
    row = jax.lax.select(k < len(X), jnp.maximum(P[k] - Q[k], 0), P[-1])
    return k, jax.random.categorical(keys[-1], jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    words = rng.integers(2**32, size=(len(draft_tokens) + 1, 2), dtype=np.uint32)
    k, y = decide(
        words, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens)
    )
    return [*draft_tokens[: int(k)], int(y)]

"""gamma is a static argument, the loop is unrolled, and the output buffer is donated."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

CONTRACT = "verify"


@partial(jax.jit, static_argnames="gamma", donate_argnums=0)
def fill(out, key, P, Q, X, gamma):
    keys = jax.random.split(key, (gamma + 1, 2))
    alive = jnp.array(True)
    for i in range(gamma):
        ok = jax.random.uniform(keys[i, 0]) * Q[i, X[i]] < P[i, X[i]]
        y = jax.random.categorical(keys[i, 1], jnp.log(jnp.maximum(P[i] - Q[i], 0.0)))
        out = out.at[i].set(jnp.where(alive, jnp.where(ok, X[i], y), out[i]))
        alive &= ok
    y = jax.random.categorical(keys[gamma, 1], jnp.log(P[gamma]))
    return out.at[gamma].set(jnp.where(alive, y, out[gamma]))


def verify(target_probs, draft_probs, draft_tokens, rng):
    gamma = len(draft_tokens)
    out = jnp.full(gamma + 1, -1, dtype=jnp.int32)
    out = fill(
        out,
        jax.random.key(int(rng.integers(2**31))),
        jnp.asarray(target_probs),
        jnp.asarray(draft_probs),
        jnp.asarray(draft_tokens, dtype=jnp.int32),
        gamma=gamma,
    )
    out = np.asarray(out)
    return out[out >= 0]

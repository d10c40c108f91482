"""Compiled code asks numpy for each coin, in order, through io_callback."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

CONTRACT = "verify"

HOST = {}


def host_uniform():
    return np.float32(HOST["rng"].random(dtype=np.float32))


def uniform():
    return io_callback(host_uniform, jax.ShapeDtypeStruct((), jnp.float32), ordered=True)


@jax.jit
def run(P, Q, X):
    n = X.shape[0]

    def going(state):
        i, ok = state
        return ok & (i < n)

    def step(state):
        i, _ = state
        ok = uniform() * Q[i, X[i]] < P[i, X[i]]
        return i + ok, ok

    k, ok = jax.lax.while_loop(going, step, (0, True))
    w = jax.lax.cond(ok, lambda: P[n], lambda: jnp.maximum(P[k] - Q[k], 0))
    c = jnp.cumsum(w)
    return k, jnp.argmax(c > uniform() * c[-1])


def verify(target_probs, draft_probs, draft_tokens, rng):
    HOST["rng"] = rng
    k, y = run(jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*draft_tokens[: int(k)], int(y)]

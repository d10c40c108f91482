"""A loop whose state is a NamedTuple, and writes with .at[].set."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

CONTRACT = "verify"


class S(NamedTuple):
    key: jax.Array
    k: jax.Array
    alive: jax.Array
    out: jax.Array


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]

    def body(i, s):
        key, a, b = jax.random.split(s.key, 3)
        ok = jax.random.uniform(a) < jnp.minimum(1.0, P[i, X[i]] / Q[i, X[i]])
        rest = jnp.maximum(P[i] - Q[i], 0)
        y = jax.random.categorical(b, jnp.where(rest > 0, jnp.log(rest), -jnp.inf))
        t = jnp.where(ok, X[i], y)
        out = jnp.where(s.alive, s.out.at[i].set(t), s.out)
        return S(key, s.k + (s.alive & ok), s.alive & ok, out)

    s = jax.lax.fori_loop(0, n, body, S(key, jnp.int32(0), jnp.bool_(True), jnp.full((n + 1,), -1)))
    y = jax.random.categorical(s.key, jnp.log(P[n]))
    return s.k, jnp.where(s.alive, s.out.at[n].set(y), s.out)


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, out = rule(
        key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens)
    )
    return out[: int(k) + 1].tolist()

"""Every round of the loop uses the first key."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    last, *keys = jax.random.split(key, n + 1)
    keys = jnp.stack(keys)

    def step(i, state):
        k, going = state
        taken = going & (jax.random.uniform(keys[0]) * Q[i, X[i]] < P[i, X[i]])
        return k + taken, taken

    k, _ = jax.lax.fori_loop(0, n, step, (0, True))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    return k, jax.random.categorical(last, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

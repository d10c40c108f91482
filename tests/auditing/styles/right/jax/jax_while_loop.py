"""lax.while_loop up to the first rejection, the key in its state."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]

    def more(state):
        i, going, _ = state
        return going & (i < n)

    def step(state):
        i, _, key = state
        key, now = jax.random.split(key)
        taken = jax.random.uniform(now) * Q[i, X[i]] < P[i, X[i]]
        return jnp.where(taken, i + 1, i), taken, key

    k, _, key = jax.lax.while_loop(more, step, (0, True, key))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    return k, jax.random.categorical(key, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

"""Block verification: the capped products come of a scan, and the last test passed counts."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def block_verify(key, P, Q, X):
    n = X.shape[0]
    test_key, token_key = jax.random.split(key)
    ratios = jnp.take_along_axis(P[:-1], X[:, None], 1) / jnp.take_along_axis(Q, X[:, None], 1)

    def cap(w, r):
        w = jnp.minimum(w * r, 1.0)
        return w, w

    _, w = jax.lax.scan(cap, jnp.ones(()), ratios[:, 0])
    w0 = jnp.concatenate([jnp.ones(1), w])
    left = jnp.maximum(w0[:-1, None] * P[:-1] - Q, 0.0)
    mass = left[1:].sum(1)
    spare = mass + 1.0 - w[:-1]
    h = jnp.where(spare > 0, mass / jnp.where(spare > 0, spare, 1.0), 1.0)
    h = jnp.append(h, w[-1])
    passed = jax.random.uniform(test_key, (n,)) < h
    tau = jnp.max(jnp.where(passed, jnp.arange(1, n + 1), 0))
    rows = jnp.vstack([left, P[-1:]])
    row = jnp.where(rows[tau].sum() > 0, rows[tau], P[tau])
    return tau, jax.random.categorical(token_key, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    tau, y = block_verify(
        key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens)
    )
    return [*map(int, draft_tokens[: int(tau)]), int(y)]

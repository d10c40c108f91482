"""Block verification whose products of ratios are capped at 1 once, not after each factor."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def block_verify(key, P, Q, X):
    n = X.shape[0]
    test_key, token_key = jax.random.split(key)
    at = jnp.arange(n)
    w = jnp.minimum(jnp.cumprod(P[at, X] / Q[at, X]), 1.0)
    before = jnp.concatenate([jnp.ones(1), w[:-1]])
    left = jnp.maximum(before[:, None] * P[:-1] - Q, 0.0)
    mass = left[1:].sum(1)
    spare = mass + 1.0 - w[:-1]
    h = jnp.append(jnp.where(spare > 0, mass / spare, 1.0), w[-1])
    passed = jax.random.uniform(test_key, (n,)) < h
    tau = jnp.max(jnp.where(passed, at + 1, 0))
    rows = jnp.vstack([left, P[-1:]])
    row = jnp.where(rows[tau].sum() > 0, rows[tau], P[tau])
    return tau, jax.random.categorical(token_key, jnp.log(row))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    tau, y = block_verify(
        key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens)
    )
    return [*map(int, draft_tokens[: int(tau)]), int(y)]

"""The search uses the key of the acceptance tests."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    kr, kb = jax.random.split(key)
    ratio = jax.lax.map(lambda a: jnp.minimum(1.0, a[0][a[2]] / a[1][a[2]]), (P[:-1], Q, X))
    ok = jax.random.uniform(kr, (n, 1))[:, 0] < ratio
    alive = jax.lax.associative_scan(jnp.logical_and, ok)
    k = jnp.sum(alive)
    rest = jnp.maximum(P - jnp.vstack([Q, jnp.zeros_like(Q[:1])]), 0)
    rest = rest / jnp.maximum(rest.sum(-1, keepdims=True), 1e-30)
    cdf = jnp.cumsum(rest, axis=-1)
    u = jax.random.uniform(kr, (n + 1, 1))
    y = jnp.minimum((cdf <= u * cdf[:, -1:]).sum(-1), P.shape[1] - 1)
    return k, y[k]


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

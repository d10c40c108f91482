"""vmap of a rule for one token, with lax.cond inside."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    ks = jax.random.split(key, n + 1)

    def one(key, p, q, x):
        a, b = jax.random.split(key)
        ok = jax.random.uniform(a) * q[x] < p[x]
        rest = jax.lax.cond(ok, lambda: p, lambda: jnp.maximum(p - q, 0))
        return ok, jax.random.categorical(b, jnp.log(rest))

    ok, res = jax.vmap(one)(ks[:-1], P[:-1], Q, X)
    k = jnp.argmin(jnp.append(ok, False))
    last = jax.random.categorical(ks[-1], jnp.log(P[-1]))
    return k, jnp.append(res, last)[k]


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

"""Running sums are taken over a random permutation of the vocabulary, and the index mapped back."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def run(key, p, q, x):
    g = x.shape[0]
    k1, k2, k3 = jax.random.split(key, 3)
    i = jnp.arange(g)
    u = jax.random.uniform(k1, (g,))
    n = jnp.argmax(jnp.append(u * q[i, x] >= p[i, x], True))
    q0 = jnp.pad(q, ((0, 1), (0, 0)))
    w = jnp.clip(p[n] - q0[n], 0)
    order = jax.random.permutation(k2, w.shape[0])
    cdf = jnp.cumsum(w[order])
    at = jnp.argmax(cdf > jax.random.uniform(k3) * cdf[-1])
    return n, order[at]


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(1 << 31)))
    n, y = run(key, *map(jnp.asarray, (target_probs, draft_probs, draft_tokens)))
    return [*draft_tokens[: int(n)], int(y)]

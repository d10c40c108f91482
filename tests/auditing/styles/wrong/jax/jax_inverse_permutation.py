"""An index in a permuted vocabulary is mapped by the inverse permutation: right for two tokens."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


def shuffled_draw(key, w):
    k1, k2 = jax.random.split(key)
    order = jax.random.permutation(k1, w.shape[-1])
    cdf = jnp.cumsum(w[order])
    at = jnp.argmax(cdf > jax.random.uniform(k2) * cdf[-1])
    return jnp.argsort(order)[at]


@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    coin_key, pick_key = jax.random.split(key)
    i = jnp.arange(n)
    rejected = jax.random.uniform(coin_key, (n,)) * Q[i, X] >= P[i, X]
    k = jnp.argmax(jnp.append(rejected, True))
    w = jnp.concatenate([jax.nn.relu(P[:-1] - Q), P[-1:]])[k]
    return k, shuffled_draw(pick_key, w)


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]

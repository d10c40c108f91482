"""All gathers are one-hot products: einsum, and a selection of the row by a mask."""

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@jax.jit
def rejection_sample(key, target, draft, tokens):
    gamma, vocab = draft.shape
    accept_key, resample_key = jax.random.split(key)
    hot = jax.nn.one_hot(tokens, vocab, dtype=target.dtype)
    p_x = jnp.einsum("gv,gv->g", hot, target[:gamma], precision="highest")
    q_x = jnp.einsum("gv,gv->g", hot, draft, precision="highest")
    ok = jax.random.uniform(accept_key, (gamma,)) * q_x < p_x
    kept = jnp.tril(jnp.ones((gamma, gamma))) @ (1.0 - ok) == 0
    length = kept.sum()
    weights = jnp.concatenate([jax.nn.relu(target[:-1] - draft), target[-1:]])
    row = jnp.einsum("g,gv->v", jax.nn.one_hot(length, gamma + 1), weights, precision="highest")
    noise = jax.random.gumbel(resample_key, (vocab,))
    return length, jnp.argmax(jnp.where(row > 0, jnp.log(row) + noise, -jnp.inf))


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.PRNGKey(rng.integers(0, 2**31 - 1))
    n, token = rejection_sample(
        key, jnp.array(target_probs), jnp.array(draft_probs), jnp.array(draft_tokens)
    )
    return [int(t) for t in draft_tokens[: int(n)]] + [int(token)]

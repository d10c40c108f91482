"""In bfloat16; accepts with probability p, not p / q: TV 0.1."""

import jax
import jax.numpy as jnp
import numpy as np

CONTRACT = "verify"


@jax.jit
def judge(key, rows, drafts, tokens):
    rows, drafts = rows.astype(jnp.bfloat16), drafts.astype(jnp.bfloat16)
    coins, last = jax.random.split(key)
    p = jnp.take_along_axis(rows[:-1], tokens[:, None], 1)[:, 0]
    kept = jax.random.uniform(coins, p.shape, jnp.bfloat16) < p
    count = jnp.cumprod(kept).sum()
    rest = jnp.maximum(rows[count] - jnp.pad(drafts, ((0, 1), (0, 0)))[count], 0)
    return count, jax.random.categorical(last, jnp.log(rest))


def verify(target_probs, draft_probs, draft_tokens, rng):
    count, last = judge(
        jax.random.key(rng.integers(2**32)),
        jnp.asarray(target_probs),
        jnp.asarray(draft_probs),
        jnp.asarray(np.asarray(draft_tokens), jnp.int32),
    )
    return [*map(int, draft_tokens[: int(count)]), int(last)]

"""The state of a scan is a dataclass, registered as a pytree."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp

CONTRACT = "verify"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["key", "alive", "length", "token"],
    meta_fields=[],
)
@dataclass(frozen=True)
class State:
    key: jax.Array
    alive: jax.Array
    length: jax.Array
    token: jax.Array

    def take_key(self):
        key, sub = jax.random.split(self.key)
        return replace(self, key=key), sub


def body(state, inputs):
    p, q, x = inputs
    state, coin_key = state.take_key()
    state, pick_key = state.take_key()
    keep = jax.random.uniform(coin_key) < p[x] / q[x]
    ended = state.alive & ~keep
    correction = jax.random.categorical(pick_key, jnp.log(jax.nn.relu(p - q)))
    return (
        replace(
            state,
            alive=state.alive & keep,
            length=state.length + (state.alive & keep),
            token=jnp.where(ended, correction, state.token),
        ),
        None,
    )


@jax.jit
def run(key, P, Q, X):
    start = State(key, jnp.array(True), jnp.array(0), jnp.array(-1))
    end, _ = jax.lax.scan(body, start, (P[:-1], Q, X))
    bonus = jax.random.categorical(end.key, jnp.log(P[-1]))
    return end.length, jnp.where(end.alive, bonus, end.token)


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(rng.integers(2**32, dtype="uint32"))
    n, y = run(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return draft_tokens[: int(n)].tolist() + [int(y)]

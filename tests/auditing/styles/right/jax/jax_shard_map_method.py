"""A compiled method spreads its rows over a mesh, here of one device, and folds its place in."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

CONTRACT = "verify"


def judge(key, P, Q, X):
    key = jax.random.fold_in(key, jax.lax.axis_index("data"))
    n = X.shape[0]
    first, second = jax.random.split(key)
    at = jnp.arange(n)
    accepted = jax.random.uniform(first, (n,)) * Q[at, X] < P[at, X]
    k = jax.lax.psum(jnp.argmin(jnp.append(accepted, False)), "data")
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    y = jax.random.categorical(second, jnp.log(row))
    return jnp.where(jnp.arange(n + 1) == k, y, jnp.append(X, -1)), k[None]


class Server:
    def __init__(self, mesh):
        self.mesh = mesh

    @functools.partial(jax.jit, static_argnums=0)
    def forward(self, key, P, Q, X):
        rows, whole = PartitionSpec("data"), PartitionSpec()
        specs = {"in_specs": (whole, rows, rows, rows), "out_specs": (rows, rows)}
        return jax.shard_map(judge, mesh=self.mesh, **specs)(key, P, Q, X)


def make_verify(server):
    def verify(target_probs, draft_probs, draft_tokens, rng):
        key = jax.random.key(int(rng.integers(2**31)))
        tokens, k = server.forward(
            key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens)
        )
        return tokens.tolist()[: int(k[0]) + 1]

    return verify


verify = make_verify(Server(Mesh(np.array(jax.devices()[:1]), ("data",))))

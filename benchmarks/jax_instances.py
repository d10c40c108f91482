"""What a right JAX token rule costs in the exact tier, beside the same rule in numpy.

    python benchmarks/jax_instances.py [--turns 5]

One instance, V=4 and gamma=3, enumerated 42 times and twice: a fortieth of the difference is what
one costs without compilation. Processor time, medians of the turns.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.subject import Subject
from simverify.symbolic.engine import Budget
from simverify.symbolic.watchdog import contain_process


@jax.jit
def decide(key: Any, target: Any, draft: Any, tokens: Any) -> Any:
    n = tokens.shape[0]
    first, second = jax.random.split(key)
    at = jnp.arange(n)
    accepted = jax.random.uniform(first, (n,)) * draft[at, tokens] < target[at, tokens]
    k = jnp.argmin(jnp.append(accepted, False))
    residual = jnp.maximum(target[k] - draft[jnp.minimum(k, n - 1)], 0)
    row = jnp.where(k < n, residual, target[n])
    return k, jax.random.categorical(second, jnp.log(row))


def in_jax(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> list[int]:
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = decide(key, *map(jnp.asarray, (target_probs, draft_probs, draft_tokens)))
    return [*map(int, draft_tokens[: int(k)]), int(y)]


def in_numpy(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> list[int]:
    n = len(draft_tokens)
    at = np.arange(n)
    accepted = rng.random(n) * draft_probs[at, draft_tokens] < target_probs[at, draft_tokens]
    k = int(np.argmin(np.append(accepted, False)))
    row = target_probs[n] if k == n else np.maximum(target_probs[k] - draft_probs[k], 0)
    with np.errstate(divide="ignore"):
        y = np.argmax(np.log(row) + rng.gumbel(size=len(row)))
    return [*map(int, draft_tokens[:k]), int(y)]


def seconds(rule: Callable[..., list[int]], copies: int) -> float:
    models = [x for x in instances_for("verify", 3, 4, 0) if (x.gamma, x.vocab_size) == (3, 4)]
    subject = Subject("rule", rule, "verify")
    began = time.process_time()
    with contain_process():
        tier = run_exact_tier(
            subject,
            "verify",
            models[:1] * copies,
            tolerance=None,
            budget=Budget(10**6, 300.0),
            searching=False,
        )
    if tier.failure is not None or len(tier.judged) != copies:
        raise SystemExit(f"{rule.__name__}: not exact on {copies} copies of {models[0].name}")
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    costs: dict[str, list[float]] = {"numpy": [], "JAX": []}
    for _ in range(turns):
        for name, rule in (("numpy", in_numpy), ("JAX", in_jax)):
            seconds(rule, 1)
            costs[name].append((seconds(rule, 42) - seconds(rule, 2)) / 40)
    ratio = median(x / y for x, y in zip(costs["JAX"], costs["numpy"], strict=True))
    shown = ", ".join(f"{name} {median(x):.3f} s" for name, x in costs.items())
    print(f"one instance: {shown}, ratio {ratio:.2f} (median of {turns} turns)")


if __name__ == "__main__":
    main()

"""Draft trees judged wrongly among siblings: the children of one node and what they leave of p.

References
----------
.. [1] Miao et al., "SpecInfer", 2023: siblings are independent samples of q.
.. [2] Chen et al., "Sequoia", 2024: siblings without replacement.
.. [3] Sun et al., "SpecTr", 2023 (K-SEQ).
"""

from typing import Any

import numpy as np

from simverify.faults.base import Fault
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees import recursive
from simverify.verifiers.trees.base import normalised, off, walking


def unnormalised_residual(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge the next sibling by (r - q)+ as it is, which sums to less than 1."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = excess(residual, q)
    return draw(residual, p, rng)


def residual_taken_twice(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Subtract q twice for each rejected sibling."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = normalised(excess(excess(residual, q), q), p)
    return draw(residual, p, rng)


def one_coin(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge all siblings with one coin, as is right for certain ones along p alone."""
    residual, coin = p, rng.random()
    for x in siblings:
        if q[x] > 0 and coin < residual[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def equal_sibling(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Give a token that was rejected its p/q again where it is drafted twice."""
    residual = p
    for i, x in enumerate(siblings):
        judged = p if x in siblings[:i] else residual
        if q[x] > 0 and rng.random() < judged[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def sorted_by_target(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge the siblings from the target's likeliest on: the first is no sample of q then."""
    likeliest = sorted(siblings, key=lambda x: (-p[x], x))
    return recursive.one_step(p, q, likeliest, rng)


def rho_one(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """K-SEQ with rho = 1 whatever K: more is accepted of a token than p has of it [3]."""
    one = np.minimum(p, q)
    beta = one.sum()
    for x in siblings:
        if q[x] > 0 and rng.random() < p[x] / q[x]:
            return x
    accepted = one * ((1 - (1 - beta) ** len(siblings)) / beta) if beta > 0 else one
    return draw(excess(p, accepted), p, rng)


def stale_q(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge siblings without replacement by a q that still holds the rejected ones.

    To take them out of q without renormalising it has the same law: the residual is 0 there.
    """
    return recursive.one_step(p, q, siblings, rng)


def removed_too_early(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Take the rejected sibling out of q first, and the residual with what is left."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        q = off(q, [x])
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def top_k_as_sampled(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge tokens that are certain, as the likeliest of q, as if they had been sampled from it."""
    return recursive.one_step_without(p, q, siblings, rng)


def certain_as_sampled(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Test the last sibling, the only one that is sampled, by q with the certain ones in it."""
    x, certain = siblings[-1], siblings[:-1]
    left = excess(p, q)
    left[certain] = p[certain]
    if q[x] > 0 and rng.random() < p[x] / q[x]:
        return x
    return draw(left, p, rng)


SIBLING_FAULTS = tuple(
    Fault(name, "tree", walking(step), summary, seen_in, scheme=scheme)
    for name, step, scheme, summary, seen_in in (
        ("unnormalised-sibling-residual", unnormalised_residual, "iid",
         "the residual is not renormalised between siblings",
         "synthetic; a slip of SpecInfer's rule (Miao et al. 2023)"),
        ("twice-taken-residual", residual_taken_twice, "iid",
         "q is subtracted twice for each rejected sibling", "synthetic"),
        ("one-coin-for-siblings", one_coin, "iid",
         "one coin judges all siblings, though they are samples",
         "synthetic; a slip of target-only tree kernels taken for sampled drafts"),
        ("equal-sibling-at-q", equal_sibling, "iid",
         "a token drafted twice gets min(1, p/q) again instead of its residual", "synthetic"),
        ("siblings-sorted-by-target", sorted_by_target, "iid",
         "siblings are judged from the target's likeliest on", "synthetic"),
        ("k-seq-rho-one", rho_one, "iid",
         "K-SEQ with rho = 1: tokens are accepted more often than p has them",
         "synthetic; a slip of SpecTr's K-SEQ (Sun et al. 2023)"),
        ("stale-sibling-q", stale_q, "without-replacement",
         "q keeps the rejected siblings, or loses them and is not renormalised",
         "llama.cpp, examples/speculative/speculative.cpp"),
        ("sibling-removed-too-early", removed_too_early, "without-replacement",
         "the residual is taken with a q that has lost the rejected sibling already",
         "synthetic; a slip of Sequoia's rule (Chen et al. 2024)"),
        ("top-k-taken-as-sampled", top_k_as_sampled, "top-k",
         "certain siblings are judged by the softmax that they are the likeliest of",
         "apple/ml-recurrent-drafter #6; llama.cpp, examples/speculative/speculative.cpp"),
        ("hub-taken-as-sampled", top_k_as_sampled, "argmax-first",
         "the first sibling, the likeliest token of q, is judged as a sample of q", "synthetic"),
        ("last-sibling-at-full-q", certain_as_sampled, "last-sampled",
         "the last sibling is tested by q, not by q without the certain ones",
         "synthetic; a slip of greedy draft sampling (Hu et al. 2025)"),
    )
)  # fmt: skip

"""Right for requests that are all alike, wrong where they differ; and the right twin of them all.

These rules take ``rule(batch, rng)`` with a batch of requests that differ in draft length,
temperature and seed, some with placeholders, with columns behind the vocabulary, or without
draft probabilities, and return B lists of tokens. The twin is the token rule, request by request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from simverify.faults.base import keep, token_rule
from simverify.verifiers.base import Array, draw


@dataclass(frozen=True)
class CompanyFault:
    """A rule for batches of requests that differ; ``kinds``: the company that shows the bug."""

    name: str
    rule: Callable[[Any, Any], list[list[int]]]
    summary: str
    kinds: str


def in_company(batch: Any, rng: Any, slip: str = "") -> list[list[int]]:
    """Judge every request by the token rule; ``slip`` names what is done wrong, if anything."""
    ends = batch.ends
    flat = np.concatenate([p[: n + 1] for p, n in zip(batch.target_probs, ends, strict=True)])
    starts = np.concatenate([[0], np.cumsum(ends + 1)])
    if slip == "gamma-offset":
        starts = np.minimum(np.arange(batch.size) * (batch.gamma + 1), len(flat) - 1)
    streams = _streams(batch, rng, slip)
    out = []
    for b in range(batch.size):
        n = int(ends[b])
        p = flat[starts[b] : starts[b] + n + 1]
        p = np.concatenate([p, np.repeat(p[-1:], n + 1 - len(p), axis=0)])
        out.append(_one(batch, b, p, n, streams[b], slip))
    return out


def _one(batch: Any, b: int, p: Array, n: int, rng: Any, slip: str) -> list[int]:
    vocab = batch.target_probs.shape[2] if slip == "padding-drawn" else batch.vocab
    x = batch.draft_tokens[b]
    if slip in ("minus-one-as-last", "placeholder-accepted") and n < int(batch.draft_len[b]):
        return _past_the_end(batch, b, rng, slip)
    if slip == "length-ignored":
        n, p = batch.gamma, batch.target_probs[b]
    if slip == "bonus-of-gamma":
        p = np.concatenate([p[:-1], batch.target_probs[b][-1:]])
    p, x = p[:, :vocab], x[:n]
    greedy = batch.greedy[0] if slip == "first-greedy" else batch.greedy[b]
    if greedy and slip != "greedy-drawn":
        p = np.eye(vocab)[p.argmax(axis=1)]
    if batch.draft_probs is not None:
        q = batch.draft_probs[b][:n, :vocab]
    elif slip == "certain-as-uniform":
        q = np.full((n, vocab), 1 / vocab)
    elif slip == "certain-as-target":
        q = p[:n]
    else:
        q = np.eye(vocab)[x]
    if slip == "padding-drawn":
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
    return token_rule(p, q, x, rng)


def _past_the_end(batch: Any, b: int, rng: Any, slip: str) -> list[int]:
    """Judge a draft up to ``draft_len`` although a -1 ends it before."""
    x = batch.draft_tokens[b][: batch.draft_len[b]]
    p, q = batch.target_probs[b], batch.draft_probs[b]
    if slip == "minus-one-as-last":
        return token_rule(p, q, np.where(x < 0, batch.vocab - 1, x), rng)
    emitted = token_rule(p[: int(batch.ends[b]) + 1], q, x[: batch.ends[b]], rng)
    if len(emitted) <= batch.ends[b]:
        return emitted
    # All that was drafted is accepted, and so is what stands for nothing.
    return keep(np.where(x < 0, 0, x), len(x), draw(p[-1], p[-1], rng))


def _streams(batch: Any, rng: Any, slip: str) -> list[Any]:
    if batch.seeds is None:
        return [rng] * batch.size
    seeds = batch.seeds
    if slip == "one-seed":
        seeds = np.repeat(seeds[:1], batch.size)
    if slip == "neighbours-seed":
        seeds = seeds ^ np.roll(seeds, 1)
    if slip == "seed-in-order":
        first = np.random.default_rng(int(seeds[0]))
        return [first] * batch.size
    return [np.random.default_rng(int(seed)) for seed in seeds]


_SLIPS = {
    "gamma-offset": ("rows of request b start at b (gamma+1), whatever its neighbours draft",
                     "ragged"),
    "length-ignored": ("what stands behind a shorter draft is judged as drafted", "stale"),
    "bonus-of-gamma": ("the last token of a shorter draft is drawn from row gamma", "ragged"),
    "minus-one-as-last": ("a placeholder is read as the last id", "placeholder"),
    "placeholder-accepted": ("placeholders count as accepted", "placeholder"),
    "padding-drawn": ("columns behind the vocabulary are drawn from", "unmasked"),
    "first-greedy": ("the first request's temperature is used for all", "greedy"),
    "greedy-drawn": ("greedy requests are drawn at random", "greedy"),
    "certain-as-uniform": ("drafts without probabilities are taken as uniform", "one-hot"),
    "certain-as-target": ("drafts without probabilities are taken as the target's", "one-hot"),
    "one-seed": ("the first request's seed is used for all", "seeds"),
    "neighbours-seed": ("a request's stream depends on its neighbour's seed", "seeds"),
    "seed-in-order": ("all requests draw from the first one's stream, in order", "seeds"),
}  # fmt: skip

COMPANY_FAULTS = {
    name: CompanyFault(name, partial(in_company, slip=name), summary, kinds)
    for name, (summary, kinds) in _SLIPS.items()
}
"""By name; each is caught in the company that it names, and :func:`in_company` passes there."""

"""Faults of batches, randomness and tree paths, lossy rules, and styles of correct rules.

References
----------
.. [1] Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025.
.. [2] Zhou et al., "Overcoming Joint Intractability with Lossless Hierarchical Speculative
       Decoding", 2026, arXiv:2601.05724.
.. [3] "Greedy Multi-Path Block Verification", 2026, arXiv:2602.16961.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import base as laws
from simverify.faults.base import (
    Control,
    Fault,
    acceptance_ratio,
    accepted_count,
    emit_after,
    inverse_cdf,
    prefix_and_last,
    token_rule,
)
from simverify.faults.trees import Ints, shape_of, tokens_down_to
from simverify.trees import ROOT, TreeShape
from simverify.verifiers import block
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.greedy import Prefix
from simverify.verifiers.trees import gbv
from simverify.verifiers.trees.base import exclude_tokens, normalised

# Right for one request, wrong for several: rows or random numbers of another request.
#
# These rules take a batch axis, ``rule(target_probs (B, gamma+1, V), draft_probs (B, gamma, V),
# draft_tokens (B, gamma), rng)``, and return B lists of tokens.


_REQUESTS_PER_CALL = 4
"""Requests per call that show them: enough for neighbours on either side."""


def ragged_offset(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[list[int]]:
    """Flatten the target rows and start request b at row b gamma, where b (gamma+1) is due."""
    gamma = draft_tokens.shape[1]
    flat = target_probs.reshape(-1, target_probs.shape[2])
    starts = range(0, gamma * len(draft_tokens), gamma)
    return [
        token_rule(flat[start : start + gamma + 1], q, x, rng)
        for start, q, x in zip(starts, draft_probs, draft_tokens, strict=True)
    ]


def swapped_requests(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[list[int]]:
    """Judge every request with the draft rows of the next one."""
    rows = zip(target_probs, np.roll(draft_probs, -1, axis=0), draft_tokens, strict=True)
    return [token_rule(p, q, x, rng) for p, q, x in rows]


def shared_request_uniforms(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[list[int]]:
    """Use the same uniforms for every request: each alone is right, together they are not."""
    gamma = draft_tokens.shape[1]
    uniforms = [rng.random() for _ in range(gamma + 1)]
    return [
        _verify_with_uniforms(p, q, x, uniforms)
        for p, q, x in zip(target_probs, draft_probs, draft_tokens, strict=True)
    ]


def _verify_with_uniforms(p: Array, q: Array, x: Array, uniforms: list[Any]) -> list[int]:
    """Token verification of one request with one uniform per slot and one for the last token."""
    for i, token_id in enumerate(x):
        if not uniforms[i] < acceptance_ratio(p[i][token_id], q[i][token_id]):
            return prefix_and_last(x, i, inverse_cdf(excess(p[i], q[i]), p[i], uniforms[-1]))
    return prefix_and_last(x, len(x), inverse_cdf(p[-1], p[-1], uniforms[-1]))


BATCH_FAULTS = (
    Fault(
        name="ragged-offset",
        contract="verify",
        rule=ragged_offset,
        summary="target rows of request b start at b gamma, not b (gamma+1); shows in batches",
        seen_in="ragged batches",
        caught_by="sampled",
        batch=_REQUESTS_PER_CALL,
    ),
    Fault(
        name="swapped-requests",
        contract="verify",
        rule=swapped_requests,
        summary="draft rows are those of another request; shows in batches",
        seen_in="ragged batches",
        caught_by="sampled",
        batch=_REQUESTS_PER_CALL,
    ),
    Fault(
        name="shared-request-uniforms",
        contract="verify",
        rule=shared_request_uniforms,
        summary="all requests are judged with the same uniforms; shows in batches",
        seen_in="requests that share a stream",
        caught_by="sampled",
        batch=_REQUESTS_PER_CALL,
    ),
)


# Right for requests that are all alike, wrong where they differ; and the right twin of them all.
#
# These rules take ``rule(batch, rng)`` with a batch of requests that differ in draft length,
# temperature and seed, some with placeholders, with columns behind the vocabulary, or without
# draft probabilities, and return B lists of tokens. The twin is the token rule, request by request.


@dataclass(frozen=True)
class MixedBatchFault:
    """A rule for batches of requests that differ; ``kinds``: the company that shows the bug."""

    name: str
    rule: Callable[[Any, Any], list[list[int]]]
    summary: str
    kinds: str


def judge_mixed_batch(batch: Any, rng: Any, slip: str = "") -> list[list[int]]:
    """Judge every request by the token rule; ``slip`` names what is done wrong, if anything."""
    ends = batch.ends
    flat = np.concatenate([p[: n + 1] for p, n in zip(batch.target_probs, ends, strict=True)])
    starts = np.concatenate([[0], np.cumsum(ends + 1)])
    if slip == "gamma-offset":
        starts = np.minimum(np.arange(batch.size) * (batch.gamma + 1), len(flat) - 1)
    streams = _request_generators(batch, rng, slip)
    out = []
    for b in range(batch.size):
        n = int(ends[b])
        p = flat[starts[b] : starts[b] + n + 1]
        p = np.concatenate([p, np.repeat(p[-1:], n + 1 - len(p), axis=0)])
        out.append(_judge_request(batch, b, p, n, streams[b], slip))
    return out


def _judge_request(batch: Any, b: int, p: Array, n: int, rng: Any, slip: str) -> list[int]:
    vocab = batch.target_probs.shape[2] if slip == "padding-drawn" else batch.vocab
    x = batch.draft_tokens[b]
    if slip in ("minus-one-as-last", "placeholder-accepted") and n < int(batch.draft_len[b]):
        return _judge_past_end(batch, b, rng, slip)
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


def _judge_past_end(batch: Any, b: int, rng: Any, slip: str) -> list[int]:
    """Judge a draft up to ``draft_len`` although a -1 ends it before."""
    x = batch.draft_tokens[b][: batch.draft_len[b]]
    p, q = batch.target_probs[b], batch.draft_probs[b]
    if slip == "minus-one-as-last":
        return token_rule(p, q, np.where(x < 0, batch.vocab - 1, x), rng)
    emitted = token_rule(p[: int(batch.ends[b]) + 1], q, x[: batch.ends[b]], rng)
    if len(emitted) <= batch.ends[b]:
        return emitted
    # All that was drafted is accepted, and so is what stands for nothing.
    return prefix_and_last(np.where(x < 0, 0, x), len(x), draw(p[-1], p[-1], rng))


def _request_generators(batch: Any, rng: Any, slip: str) -> list[Any]:
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


_BATCH_SLIPS = {
    "gamma-offset": (
        "rows of request b start at b (gamma+1), whatever its neighbours draft",
        "ragged",
    ),
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
}

MIXED_BATCH_FAULTS = {
    name: MixedBatchFault(name, partial(judge_mixed_batch, slip=name), summary, kinds)
    for name, (summary, kinds) in _BATCH_SLIPS.items()
}
"""By name; each is caught in the company that it names, and :func:`judge_mixed_batch` passes there.
"""


# Right formulas, wrong randomness: draws that are shared, repeated or re-seeded.


Law = Callable[[Prefix], Array]


def reused_uniform(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the residual by inverse CDF with the uniform that just rejected."""
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        u = rng.random()
        if not u < acceptance_ratio(p[x], q[x]):
            return prefix_and_last(draft_tokens, i, inverse_cdf(excess(p, q), p, u))
    return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def one_uniform(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Judge all slots with one uniform."""
    u = rng.random()
    tau = 0
    for i, x in enumerate(draft_tokens):
        if not u < acceptance_ratio(target_probs[i][x], draft_probs[i][x]):
            break
        tau = i + 1
    return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)


_SEED = 20


def seeded_per_call(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Re-seed the generator before every draw: all draws of all calls are the same."""
    tau = 0
    for i, x in enumerate(draft_tokens):
        u = np.random.default_rng(_SEED).random()
        if not u < acceptance_ratio(target_probs[i][x], draft_probs[i][x]):
            break
        tau = i + 1
    return emit_after(target_probs, draft_probs, draft_tokens, tau, np.random.default_rng(_SEED))


def shared_noise(prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any) -> list[int]:
    """Draw draft and residual by Gumbel argmax with the same noise."""
    context, tokens, noises = tuple(prefix), [], []
    for _ in range(gamma):
        noises.append(rng.gumbel(size=len(draft(context))))
        tokens.append(int(np.argmax(_log(draft(context)) + noises[-1])))
        context = (*context, tokens[-1])
    for i, x in enumerate(tokens):
        here = (*prefix, *tokens[:i])
        p, q = target(here), draft(here)
        if not rng.random() < acceptance_ratio(p[x], q[x]):
            return prefix_and_last(tokens, i, int(np.argmax(_log(excess(p, q)) + noises[i])))
    bonus = target(context)
    return prefix_and_last(tokens, gamma, draw(bonus, bonus, rng))


def draft_uniform_as_coin(
    prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
) -> list[int]:
    """Judge each token by the uniform that drew it by inverse CDF."""
    tokens: list[int] = []
    for _ in range(gamma):
        context = (*prefix, *tokens)
        p, q, u = target(context), draft(context), rng.random()
        x = inverse_cdf(q, q, u)
        if not u < acceptance_ratio(p[x], q[x]):
            return [*tokens, draw(excess(p, q), p, rng)]
        tokens.append(x)
    bonus = target((*prefix, *tokens))
    return [*tokens, draw(bonus, bonus, rng)]


def _log(row: Array) -> Array:
    with np.errstate(divide="ignore"):
        logs: Array = np.log(row)
    return logs


class RepeatedStream:
    """Judges slot i of every call with the uniform that judged slot i of the first one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a request: its uniforms are drawn when they are first needed."""
        self.uniforms: list[Any] = []

    def step(
        self, prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
    ) -> list[int]:
        """Draft and judge token by token; residual and bonus are drawn afresh."""
        tokens: list[int] = []
        for i in range(gamma):
            context = (*prefix, *tokens)
            p, q = target(context), draft(context)
            x = int(rng.choice(len(q), p=q))
            if i == len(self.uniforms):
                self.uniforms.append(rng.random())
            if not self.uniforms[i] < acceptance_ratio(p[x], q[x]):
                return [*tokens, draw(excess(p, q), p, rng)]
            tokens.append(x)
        bonus = target((*prefix, *tokens))
        return [*tokens, draw(bonus, bonus, rng)]


class SeededPerRequest:
    """Seeds its generator at every reset: all requests draw the same numbers."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a request with the draws that the last one started with."""
        self.rng: Any = np.random.default_rng(_SEED)

    def step(
        self, prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
    ) -> list[int]:
        """Draft and judge token by token with the rule's own generator."""
        tokens: list[int] = []
        for _ in range(gamma):
            context = (*prefix, *tokens)
            p, q = target(context), draft(context)
            x = int(self.rng.choice(len(q), p=q))
            if not self.rng.random() < acceptance_ratio(p[x], q[x]):
                return [*tokens, draw(excess(p, q), p, self.rng)]
            tokens.append(x)
        bonus = target((*prefix, *tokens))
        return [*tokens, draw(bonus, bonus, self.rng)]


RANDOMNESS_FAULTS = (
    Fault(
        name="reused-uniform",
        contract="verify",
        rule=reused_uniform,
        summary="the residual is drawn by inverse CDF with the uniform that just rejected",
        seen_in="FlashInfer #424, SGLang #7207, vllm-ascend #16370",
        law=laws.slot_by_slot(laws.reused_uniform),
    ),
    Fault(
        name="one-uniform",
        contract="verify",
        rule=one_uniform,
        summary="one uniform judges all slots",
        seen_in="synthetic",
        law=laws.weighted_slot_law(laws.one_uniform, capped=False),
    ),
    Fault(
        name="seeded-per-call",
        contract="verify",
        rule=seeded_per_call,
        summary="the generator is re-seeded before every draw",
        seen_in="feifeibear",
    ),
    Fault(
        name="shared-noise",
        contract="step",
        rule=shared_noise,
        summary="draft and residual are drawn with the same Gumbel noise",
        seen_in="vLLM #47386; engines whose noise depends on seed and position alone",
    ),
    Fault(
        name="draft-uniform-as-coin",
        contract="step",
        rule=draft_uniform_as_coin,
        summary="a token is judged by the uniform that drew it",
        seen_in="vLLM #47386, there the word of Philox that seeds the draft's noise",
    ),
    Fault(
        name="repeated-stream",
        contract="step",
        rule=RepeatedStream,
        summary="every call of a request is judged with the uniforms of its first call",
        seen_in="requests that share a stream",
    ),
    Fault(
        name="seeded-per-request",
        contract="step",
        rule=SeededPerRequest,
        summary="the generator is seeded with a constant at every reset",
        seen_in="engines with one seed for all requests",
    ),
)


# ruff: noqa: NPY002 -- global generators are what these are about
# The correct token rule in the styles that people write it in.


def vectorised(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Judge all slots at once; the first rejection cuts."""
    slots = np.arange(len(draft_tokens))
    ratios = target_probs[slots, draft_tokens] / draft_probs[slots, draft_tokens]
    rejections = np.flatnonzero(rng.random(len(slots)) >= ratios)
    tau = int(rejections[0]) if len(rejections) else len(slots)
    law = _last_law(target_probs, draft_probs, tau)
    return [*draft_tokens[:tau].tolist(), int(rng.choice(len(law), p=law))]


def searchsorted(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the last token by inverse CDF."""
    slots = np.arange(len(draft_tokens))
    ratios = target_probs[slots, draft_tokens] / draft_probs[slots, draft_tokens]
    tau = int((rng.random(len(slots)) < ratios).cumprod().sum())
    cdf = np.cumsum(_last_law(target_probs, draft_probs, tau))
    last = int(np.searchsorted(cdf, rng.random() * cdf[-1], side="right"))
    return [*draft_tokens[:tau].tolist(), last]


def gumbel(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Judge in logs; draw the last token by Gumbel argmax."""
    tau = 0
    with np.errstate(divide="ignore"):
        for p, q, x in zip(target_probs[:-1], draft_probs, draft_tokens, strict=True):
            if np.log(rng.random()) >= np.log(p[x]) - np.log(q[x]):
                break
            tau += 1
        logits = np.log(_last_law(target_probs, draft_probs, tau))
    last = int(np.argmax(logits + rng.gumbel(size=len(logits))))
    return [*draft_tokens[:tau].tolist(), last]


def exponential_race(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the last token as the winner of an exponential race."""
    tau = 0
    while tau < len(draft_tokens):
        x = draft_tokens[tau]
        if rng.random() * draft_probs[tau, x] >= target_probs[tau, x]:
            break
        tau += 1
    law = _last_law(target_probs, draft_probs, tau)
    last = int(np.argmax(law / rng.exponential(size=len(law))))
    return [*draft_tokens[:tau].tolist(), last]


def random_module(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw everything from the ``random`` module; ``rng`` is not used."""
    tokens: list[int] = []
    for i, x in enumerate(draft_tokens.tolist()):
        if random.random() >= target_probs[i, x] / draft_probs[i, x]:
            break
        tokens.append(x)
    law = _last_law(target_probs, draft_probs, len(tokens))
    return tokens + random.choices(range(len(law)), weights=law.tolist())


def legacy_numpy(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw everything from ``np.random``; ``rng`` is not used."""
    tau = 0
    for i, x in enumerate(draft_tokens):
        if np.random.rand() >= target_probs[i, x] / draft_probs[i, x]:
            break
        tau = i + 1
    law = _last_law(target_probs, draft_probs, tau)
    return [*draft_tokens[:tau].tolist(), int(np.random.choice(len(law), p=law))]


def _last_law(target_probs: Array, draft_probs: Array, tau: int) -> Array:
    p = target_probs[tau]
    law = excess(p, draft_probs[tau]) if tau < len(draft_probs) else p
    total = law.sum()
    # A rejection leaves residual mass; none can only be rounding.
    normalised: Array = law / total if total > 0 else p
    return normalised


STYLE_CONTROLS = tuple(
    Control(name, "verify", rule, f"token verification, {how}", "an unusual way to draw")
    for name, rule, how in (
        ("token-vectorised", vectorised, "all slots judged at once"),
        ("token-searchsorted", searchsorted, "last token by searchsorted"),
        ("token-gumbel", gumbel, "in logs, last token by Gumbel argmax"),
        ("token-exponential-race", exponential_race, "last token by an exponential race"),
        ("token-random-module", random_module, "drawn from the random module"),
        ("token-legacy-numpy", legacy_numpy, "drawn from the global np.random"),
    )
)


# Paths of a draft tree judged wrongly: which one is kept, and with what weight [1]_ [2]_ [3]_.


def _leaf_paths(shape: TreeShape) -> list[tuple[int, ...]]:
    """Return the way to each leaf, from left to right."""
    return [shape.way(node) for node in range(len(shape)) if not shape.children[node]]


def _rows_along(rows: Array, way: Sequence[int]) -> Array:
    """Return the rows that follow the prefix and each node of ``way``."""
    return rows[[node + 1 for node in (ROOT, *way)]]


def best_of_paths(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Verify the way to each leaf by itself with the token rule, and keep the longest."""
    best: tuple[int, tuple[int, ...]] = (-1, ())
    for way in _leaf_paths(shape_of(parents)):
        path = np.array([int(tokens[node]) for node in way])
        tau = accepted_count(_rows_along(p, way), _rows_along(q, way), path, rng)
        if tau > best[0]:
            best = (tau, way)
    tau, way = best
    path = np.array([int(tokens[node]) for node in way])
    return emit_after(_rows_along(p, way), _rows_along(q, way), path, tau, rng)


def gbv_own_q(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Choose the best way as GBV does [3], and judge it by q instead of the winner's law."""
    shape = shape_of(parents)
    ways = _leaf_paths(shape) if gbv.GBV.fits(shape) else _leaf_paths(shape)[:1]
    at = ROOT
    for level in range(len(ways[0])):
        ranked = gbv.ranks(p[at + 1], q[at + 1])
        best = max((int(tokens[way[level]]) for way in ways), key=ranked.index)
        ways = [way for way in ways if int(tokens[way[level]]) == best]
        at = ways[0][level]
    path = np.array([int(tokens[node]) for node in ways[0]])
    return block.verify(_rows_along(p, ways[0]), _rows_along(q, ways[0][:-1]), path, rng)


Reweigh = Callable[[Array, Array, Any, Any, int], tuple[Array, Any]]
"""``(p, q, weight, child's weight, its token)``: what of p and of the weight is left."""


def _traversal_rule(reweigh: Reweigh) -> Callable[..., list[int]]:
    """Return Traversal Verification [1] of siblings without replacement with its own weights."""

    def rule(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
        shape = shape_of(parents)
        left = {node: list(children) for node, children in shape.children.items()}
        p_of, q_of = ({node: rows[node + 1] for node in left} for rows in (p, q))
        weight: dict[int, Any] = {ROOT: 1}
        node = ROOT
        while True:
            while left[node]:
                above, node = node, left[node][0]
                x = int(tokens[node])
                own = q_of[above][x]
                weight[node] = min(1, weight[above] * p_of[above][x] / own) if own > 0 else 0
            if node == ROOT or rng.random() < weight[node]:
                return [*tokens_down_to(shape, tokens, node), draw(p_of[node], p[node + 1], rng)]
            child, x, node = node, int(tokens[node]), shape.parents[node]
            left[node].pop(0)
            residual, weight[node] = reweigh(p_of[node], q_of[node], weight[node], weight[child], x)
            p_of[node], q_of[node] = (
                normalised(residual, p_of[node]),
                exclude_tokens(q_of[node], [x]),
            )

    return rule


def weight_of_child(p: Array, q: Array, weight: Any, rejected: Any, x: int) -> tuple[Array, Any]:
    """Take block's residual with the weight of the rejected child, not of its parent."""
    residual = excess(rejected * p, q)
    room = residual.sum() + 1 - rejected
    return residual, residual.sum() / room if room > 0 else 1


def weight_by_ratio(p: Array, q: Array, weight: Any, rejected: Any, x: int) -> tuple[Array, Any]:
    """Take S over what q has left without the rejected token for the parent's weight."""
    residual = excess(weight * p, q)
    rest = q.sum() - q[x]
    return residual, min(1, residual.sum() / rest) if rest > 0 else 0


def _hierarchical_rule(*, last_is_capped: bool) -> Callable[..., list[int]]:
    """Return hierarchical speculative decoding [2] of the leftmost way with one cap wrong."""

    def rule(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
        way = _leaf_paths(shape_of(parents))[0]
        p, q = _rows_along(p, way), _rows_along(q, way)
        path = [int(tokens[node]) for node in way]
        ratio: Any = 1
        most: Any = 1
        capped = [ratio]
        for i, x in enumerate(path):
            ratio = ratio * p[i][x] / q[i][x] if q[i][x] > 0 else 0 * ratio
            # Before its own ratio counts, the cap of a prefix is that of shorter ones.
            capped.append(ratio / (most if last_is_capped else max(most, ratio)))
            most = max(most, ratio)
        if rng.random() < (capped[-1] if last_is_capped else ratio):
            return [*path, draw(p[-1], p[-1], rng)]
        for t in reversed(range(len(path))):
            due = capped[t] * p[t]
            gained, lost = excess(due, q[t]).sum(), excess(q[t], due).sum()
            larger = max(gained, lost)
            if t == 0 or larger == 0 or rng.random() < gained / larger:
                break
        return [*path[:t], draw(excess(due, q[t]), p[t], rng)]

    return rule


_SUBSPEC_SOURCE = "brian030128/subspec_v2, specdecodes/models/utils/traversal_verification.py"
_HSD_SOURCE = "ZhouYuxuanYX/Hierarchical-Speculative-Decoding, algorithm_clean.py"

PATH_FAULTS = tuple(
    Fault(name, "tree", rule, summary, seen_in, scheme=scheme)
    for name, rule, scheme, summary, seen_in in (
        (
            "best-of-several-ways",
            best_of_paths,
            "iid",
            "each way is verified by itself, and the longest is kept",
            "apple/ml-recurrent-drafter, recurrent_drafting.py; fms-extras #12",
        ),
        (
            "gbv-own-q",
            gbv_own_q,
            "iid",
            "greedy multi-path block with the draft's own q, not the distribution of the best path",
            "synthetic; a slip of arXiv:2602.16961",
        ),
        (
            "traversal-weight-of-child",
            _traversal_rule(weight_of_child),
            "without-replacement",
            "Traversal Verification leaves a residual with the rejected child's weight",
            "synthetic; a slip of Weng et al. 2025",
        ),
        (
            "traversal-ratio-weight",
            _traversal_rule(weight_by_ratio),
            "without-replacement",
            "Traversal Verification with weight S over the rest of q",
            _SUBSPEC_SOURCE,
        ),
        (
            "uncapped-hierarchical",
            _hierarchical_rule(last_is_capped=False),
            "iid",
            "hierarchical speculative decoding whose last test is against p/q uncapped",
            _HSD_SOURCE,
        ),
        (
            "shorter-cap-hierarchical",
            _hierarchical_rule(last_is_capped=True),
            "iid",
            "hierarchical speculative decoding whose cap counts shorter prefixes alone",
            "synthetic; a slip of Zhou et al. 2026",
        ),
    )
)


# Lossy by declaration: rules that trade the target's law for acceptance, and say so.
#
# An audit shows the price; ``COMPACT_TV`` has it as a number for the values listed here.
#
# References
# ----------
# .. [1] Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding
# Heads", 2024, section 2.3.1 (typical acceptance).
# .. [2] TensorRT-LLM, "DeepSeek R1 MTP Implementation and Optimization": relaxed acceptance, with
# the settings ``relaxed_topk`` and ``relaxed_delta``.
# .. [3] vllm-project/vllm-ascend #7845: adaptive rejection sampling, where the coin is lowered by
# a tolerance times 1 - max p.


_TYPICAL_THRESHOLD, _TYPICAL_ALPHA = 0.3, 0.09


def _rule_with_acceptance(chance: Callable[[Array, Array, int], Any]) -> Callable[..., list[int]]:
    """Return the token rule that keeps draft x with ``chance(p, q, x)``; its residual is right."""

    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        for i, x in enumerate(draft_tokens):
            if not rng.random() < chance(target_probs[i], draft_probs[i], x):
                return emit_after(target_probs, draft_probs, draft_tokens, i, rng)
        return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)

    return verify


def lenient(bound: float) -> Fault:
    """Fault that judges with r ~ U[0, bound] instead of U[0, 1]."""
    if not 0 < bound < 1:
        raise UsageError(f"lenient({bound:g}): pass a bound between 0 and 1")
    return Fault(
        name=f"lenient({bound:g})",
        contract="verify",
        rule=_rule_with_acceptance(lambda p, q, x: acceptance_ratio(p[x], bound * q[x])),
        summary=f"accepts when r < p/q with r ~ U[0, {bound:g}]; lossy by design",
        seen_in="the speculative-sampling post, SGLang's thresholds",
        law=laws.slot_by_slot(partial(laws.scaled_acceptance, factor=1 / bound)),
    )


def draft_leak(share: float) -> Fault:
    """Fault that accepts unseen with probability ``share``: slots follow (1-share) P + share Q."""
    if not 0 < share <= 1:
        raise UsageError(f"draft-leak({share:g}): pass a share in (0, 1]")
    return Fault(
        name=f"draft-leak({share:g})",
        contract="verify",
        rule=_rule_with_acceptance(
            lambda p, q, x: share + (1 - share) * acceptance_ratio(p[x], q[x])
        ),
        summary=f"a draft token is kept without being judged with probability {share:g}",
        seen_in="synthetic; the ensemble weight of Transformers",
        law=laws.slot_by_slot(partial(laws.draft_leak, share=share)),
    )


def typical_acceptance(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept x when p(x) > min(.3, .09 exp(-H(p))) [1]; a rejection emits the argmax."""
    for i, x in enumerate(draft_tokens):
        p = target_probs[i]
        positive = p[p > 0]
        entropy = -(positive * np.log(positive)).sum()
        if not p[x] > min(_TYPICAL_THRESHOLD, _TYPICAL_ALPHA * np.exp(-entropy)):
            return prefix_and_last(draft_tokens, i, int(np.argmax(p)))
    return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def relaxed_acceptance(most: float, delta: float) -> Fault:
    """Fault that accepts what is among the target's ``most`` likeliest and ``delta`` below [2]."""
    if not most >= 1 or most % 1:
        raise UsageError(
            f"relaxed-acceptance({most:g},{delta:g}): pass a whole number of tokens first, "
            "1 or more"
        )
    if not 0 <= delta < 1:
        raise UsageError(
            f"relaxed-acceptance({most:g},{delta:g}): pass a difference of probabilities second, "
            "0 or more and below 1"
        )

    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        for i, x in enumerate(draft_tokens):
            p = target_probs[i]
            if not laws.is_near_top(p, int(most), delta)[x]:
                return prefix_and_last(draft_tokens, i, int(np.argmax(p)))
        return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)

    return Fault(
        name=f"relaxed-acceptance({most:g},{delta:g})",
        contract="verify",
        rule=verify,
        summary=f"accepts the target's top {most:g} down to {delta:g} below the first, else "
        "argmax; lossy by design",
        seen_in="TensorRT-LLM, relaxed_topk and relaxed_delta",
        law=laws.slot_by_slot(partial(laws.relaxed_acceptance, most=int(most), delta=delta)),
    )


def entropy_scaled(tolerance: float) -> Fault:
    """Fault whose coin is lowered by ``tolerance`` times 1 - max p [3]."""
    if not 0 < tolerance <= 1:
        raise UsageError(f"entropy-scaled({tolerance:g}): pass a tolerance in (0, 1]")

    def eased(p: Array, q: Array, x: int) -> Any:
        return acceptance_ratio(p[x], q[x]) + tolerance * (1 - p.max())

    return Fault(
        name=f"entropy-scaled({tolerance:g})",
        contract="verify",
        rule=_rule_with_acceptance(eased),
        summary=f"accepts with p/q + {tolerance:g} (1 - max p), more where the target is unsure; "
        "lossy by design",
        seen_in="vllm-ascend #7845",
        law=laws.slot_by_slot(partial(laws.entropy_scaled, tolerance=tolerance)),
    )


def forced_top(most: float) -> Fault:
    """Fault that keeps unseen what is among the target's ``most`` likeliest tokens."""
    if not most >= 1 or most % 1:
        raise UsageError(f"forced-top({most:g}): pass a whole number of tokens, 1 or more")

    def forced(p: Array, q: Array, x: int) -> Any:
        return 1 if laws.is_near_top(p, int(most), 1.0)[x] else acceptance_ratio(p[x], q[x])

    return Fault(
        name=f"forced-top({most:g})",
        contract="verify",
        rule=_rule_with_acceptance(forced),
        summary=f"keeps the target's {most:g} likeliest tokens without a coin; lossy by design",
        seen_in="synthetic; lossy acceptance by rank",
        law=laws.slot_by_slot(partial(laws.forced_top, most=int(most))),
    )


DECLARED_FAULTS = (
    lenient(0.9),
    Fault(
        name="typical-acceptance",
        contract="verify",
        rule=typical_acceptance,
        summary="accepts when p(x) > min(.3, .09 exp(-H(p))), else argmax; lossy by design",
        seen_in="Medusa, vLLM v0",
        law=laws.slot_by_slot(
            partial(laws.typical_acceptance, threshold=_TYPICAL_THRESHOLD, alpha=_TYPICAL_ALPHA)
        ),
    ),
    draft_leak(0.01),
    relaxed_acceptance(2, 0.25),
    entropy_scaled(0.1),
    forced_top(2),
)

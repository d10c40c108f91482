"""Right for one request, wrong for several: rows or random numbers of another request.

These rules take a batch axis, ``rule(target_probs (B, gamma+1, V), draft_probs (B, gamma, V),
draft_tokens (B, gamma), rng)``, and return B lists of tokens.
"""

from typing import Any

import numpy as np

from simverify.faults.base import Fault, acceptance, invert, keep, token_rule
from simverify.verifiers.base import Array, excess

_BATCH = 4
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
        _judged(p, q, x, uniforms)
        for p, q, x in zip(target_probs, draft_probs, draft_tokens, strict=True)
    ]


def _judged(p: Array, q: Array, x: Array, uniforms: list[Any]) -> list[int]:
    """Token verification of one request with one uniform per slot and one for the last token."""
    for i, token_id in enumerate(x):
        if not uniforms[i] < acceptance(p[i][token_id], q[i][token_id]):
            return keep(x, i, invert(excess(p[i], q[i]), p[i], uniforms[-1]))
    return keep(x, len(x), invert(p[-1], p[-1], uniforms[-1]))


BATCH_FAULTS = (
    Fault(
        name="ragged-offset",
        contract="verify",
        rule=ragged_offset,
        summary="target rows of request b start at b gamma, not b (gamma+1); shows in batches",
        seen_in="ragged batches",
        caught_by="sampled",
        batch=_BATCH,
    ),
    Fault(
        name="swapped-requests",
        contract="verify",
        rule=swapped_requests,
        summary="draft rows are those of another request; shows in batches",
        seen_in="ragged batches",
        caught_by="sampled",
        batch=_BATCH,
    ),
    Fault(
        name="shared-request-uniforms",
        contract="verify",
        rule=shared_request_uniforms,
        summary="all requests are judged with the same uniforms; shows in batches",
        seen_in="requests that share a stream",
        caught_by="sampled",
        batch=_BATCH,
    ),
)

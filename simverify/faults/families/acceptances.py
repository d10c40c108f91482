"""Wrong acceptance by mistake, with the token rule's own residual."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import emission_laws as laws
from simverify.faults.base import Fault, acceptance, accepted, finish
from simverify.verifiers.base import Array, draw


def count_all_accepts(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Keep as many tokens as were accepted anywhere, not the accepted prefix."""
    tau = 0
    for i, x in enumerate(draft_tokens):
        if rng.random() < acceptance(target_probs[i][x], draft_probs[i][x]):
            tau += 1
    return finish(target_probs, draft_probs, draft_tokens, tau, rng)


def inverted_ratio(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept with min(1, q/p)."""
    tau = accepted(draft_probs, target_probs, draft_tokens, rng)
    return finish(target_probs, draft_probs, draft_tokens, tau, rng)


def double_chance(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept also when an independent target sample equals the draft."""
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not rng.random() < acceptance(p[x], q[x]) and draw(p, p, rng) != x:
            return finish(target_probs, draft_probs, draft_tokens, i, rng)
    return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def zero_mass_accept(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Reject only if u > p/q: u = 0 accepts a token with p = 0, and 0/0 accepts always."""
    for i, x in enumerate(draft_tokens):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = target_probs[i][x] / draft_probs[i][x]
        if rng.random() > ratio:
            return finish(target_probs, draft_probs, draft_tokens, i, rng)
    return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def _scaled(factor: float) -> Callable[..., list[int]]:
    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        tau = accepted(factor * target_probs, draft_probs, draft_tokens, rng)
        return finish(target_probs, draft_probs, draft_tokens, tau, rng)

    return verify


def scaled_acceptance(factor: float) -> Fault:
    """Fault that accepts with min(1, factor p/q)."""
    if not 0 < factor < float("inf") or factor == 1:
        raise UsageError(f"scaled-acceptance({factor:g}): pass a positive factor other than 1")
    return Fault(
        name=f"scaled-acceptance({factor:g})",
        contract="verify",
        rule=_scaled(factor),
        summary=f"accepts with min(1, {factor:g} p/q)",
        seen_in="synthetic",
        law=laws.slot_by_slot(partial(laws.scaled_acceptance, factor=factor)),
    )


ACCEPTANCE_FAULTS = (
    Fault(
        name="count-all-accepts",
        contract="verify",
        rule=count_all_accepts,
        summary="number of accepts instead of the accepted prefix",
        seen_in="lucidrains, 2023",
    ),
    Fault(
        name="inverted-ratio",
        contract="verify",
        rule=inverted_ratio,
        summary="accepts with min(1, q/p)",
        seen_in="a published summary of block verification",
        law=laws.slot_by_slot(laws.inverted_ratio),
    ),
    Fault(
        name="double-chance",
        contract="verify",
        rule=double_chance,
        summary="accepts also when an independent target sample equals the draft",
        seen_in="rtp-llm #1295",
        law=laws.slot_by_slot(laws.double_chance),
    ),
    Fault(
        name="zero-mass-accept",
        contract="verify",
        rule=zero_mass_accept,
        summary="u = 0 or 0/0 accepts a token with p = 0",
        seen_in="SGLang #35771, TensorRT-LLM",
        caught_by="probe",
        severity="warning",
    ),
    scaled_acceptance(1.1),
    scaled_acceptance(1.01),
    scaled_acceptance(1.0001),
)

"""Wrong acceptance, by mistake or by design.

The mistakes keep the token rule's own residual. Lossy rules trade the target's law for
acceptance; an audit shows the price.

References
----------
.. [1] Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding
       Heads", 2024, section 2.3.1 (typical acceptance).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import emission_laws as laws
from simverify.faults.base import Fault, acceptance, accepted, finish, keep
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


_THRESHOLD, _ALPHA = 0.3, 0.09


def _lenient(bound: float) -> Callable[..., list[int]]:
    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        for i, x in enumerate(draft_tokens):
            if not rng.random() < acceptance(target_probs[i][x], bound * draft_probs[i][x]):
                return finish(target_probs, draft_probs, draft_tokens, i, rng)
        return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)

    return verify


def lenient(bound: float) -> Fault:
    """Fault that judges with r ~ U[0, bound] instead of U[0, 1]."""
    if not 0 < bound < 1:
        raise UsageError(f"lenient({bound:g}): pass a bound between 0 and 1")
    return Fault(
        name=f"lenient({bound:g})",
        contract="verify",
        rule=_lenient(bound),
        summary=f"accepts when r < p/q with r ~ U[0, {bound:g}]; lossy by design",
        seen_in="the speculative-sampling post, SGLang's thresholds",
        law=laws.slot_by_slot(partial(laws.scaled_acceptance, factor=1 / bound)),
    )


def _leaking(share: float) -> Callable[..., list[int]]:
    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        for i, x in enumerate(draft_tokens):
            a = acceptance(target_probs[i][x], draft_probs[i][x])
            if not rng.random() < share + (1 - share) * a:
                return finish(target_probs, draft_probs, draft_tokens, i, rng)
        return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)

    return verify


def draft_leak(share: float) -> Fault:
    """Fault that accepts unseen with probability ``share``: slots follow (1-share) P + share Q."""
    if not 0 < share <= 1:
        raise UsageError(f"draft-leak({share:g}): pass a share in (0, 1]")
    return Fault(
        name=f"draft-leak({share:g})",
        contract="verify",
        rule=_leaking(share),
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
        if not p[x] > min(_THRESHOLD, _ALPHA * np.exp(-entropy)):
            return keep(draft_tokens, i, int(np.argmax(p)))
    return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


LOSSY_RULES = (
    lenient(0.9),
    Fault(
        name="typical-acceptance",
        contract="verify",
        rule=typical_acceptance,
        summary="accepts when p(x) > min(.3, .09 exp(-H(p))), else argmax; lossy by design",
        seen_in="Medusa, vLLM v0",
        law=laws.slot_by_slot(partial(laws.typical_acceptance, threshold=_THRESHOLD, alpha=_ALPHA)),
    ),
    draft_leak(0.01),
)

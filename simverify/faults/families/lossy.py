"""Rules that trade the target's law for acceptance by design; an audit shows the price.

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
from simverify.faults.base import Fault, acceptance, finish, keep
from simverify.verifiers.base import Array

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

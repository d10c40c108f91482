"""Lossy by declaration: rules that trade the target's law for acceptance, and say so.

An audit shows the price; ``COMPACT_TV`` has it as a number for the values listed here.

References
----------
.. [1] Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding
       Heads", 2024, section 2.3.1 (typical acceptance).
.. [2] TensorRT-LLM, "DeepSeek R1 MTP Implementation and Optimization": relaxed acceptance, with
       the settings ``relaxed_topk`` and ``relaxed_delta``.
.. [3] vllm-project/vllm-ascend #7845: adaptive rejection sampling, where the coin is lowered by
       a tolerance times 1 - max p.
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


def _judging(chance: Callable[[Array, Array, int], Any]) -> Callable[..., list[int]]:
    """Return the token rule that keeps draft x with ``chance(p, q, x)``; its residual is right."""

    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        for i, x in enumerate(draft_tokens):
            if not rng.random() < chance(target_probs[i], draft_probs[i], x):
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
        rule=_judging(lambda p, q, x: acceptance(p[x], bound * q[x])),
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
        rule=_judging(lambda p, q, x: share + (1 - share) * acceptance(p[x], q[x])),
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
            if not laws.near_the_top(p, int(most), delta)[x]:
                return keep(draft_tokens, i, int(np.argmax(p)))
        return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)

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
        return acceptance(p[x], q[x]) + tolerance * (1 - p.max())

    return Fault(
        name=f"entropy-scaled({tolerance:g})",
        contract="verify",
        rule=_judging(eased),
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
        return 1 if laws.near_the_top(p, int(most), 1.0)[x] else acceptance(p[x], q[x])

    return Fault(
        name=f"forced-top({most:g})",
        contract="verify",
        rule=_judging(forced),
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
        law=laws.slot_by_slot(partial(laws.typical_acceptance, threshold=_THRESHOLD, alpha=_ALPHA)),
    ),
    draft_leak(0.01),
    relaxed_acceptance(2, 0.25),
    entropy_scaled(0.1),
    forced_top(2),
)

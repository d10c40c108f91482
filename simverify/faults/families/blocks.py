"""Block verification gone wrong.

References
----------
.. [1] Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025,
       algorithms 2 and 4, appendix C.
"""

from collections.abc import Callable, Sequence
from typing import Any

from simverify.faults import emission_laws as laws
from simverify.faults.base import Fault, acceptance, finish
from simverify.verifiers.base import Array, excess
from simverify.verifiers.greedy import GreedyBlock, Prefix


def naive_block(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Compare products of min(1, p/q) with products of uniforms; the scan never stops."""
    tau, weight, product = 0, 1.0, 1.0
    for i, x in enumerate(draft_tokens):
        weight = weight * acceptance(target_probs[i][x], draft_probs[i][x])
        product = product * rng.random()
        if product < weight:
            tau = i + 1
    return finish(target_probs, draft_probs, draft_tokens, tau, rng)


def naive_block_stealth(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept as block verification does [1], but emit the token rule's residual."""
    gamma = len(draft_tokens)
    tau, weight = 0, 1
    for i, x in enumerate(draft_tokens):
        weight = min(1, weight * target_probs[i][x] / draft_probs[i][x])
        threshold = weight
        if i + 1 < gamma:
            residual = excess(weight * target_probs[i + 1], draft_probs[i + 1]).sum()
            room = residual + 1 - weight
            threshold = residual / room if room > 0 else 1
        if rng.random() < threshold:
            tau = i + 1
    return finish(target_probs, draft_probs, draft_tokens, tau, rng)


def greedy_no_state(
    prefix: Sequence[int],
    target: Callable[[Prefix], Array],
    draft: Callable[[Prefix], Array],
    gamma: int,
    rng: Any,
) -> list[int]:
    """Greedy block verification that starts every call without its debt [1]."""
    return GreedyBlock().step(prefix, target, draft, gamma, rng)


BLOCK_FAULTS = (
    Fault(
        name="naive-block",
        contract="verify",
        rule=naive_block,
        summary="cumprod of min(1, p/q) against cumprod of u, with the token residual",
        seen_in="vllm-ascend #7807",
    ),
    Fault(
        name="naive-block-stealth",
        contract="verify",
        rule=naive_block_stealth,
        summary="block verification's acceptance with the token residual",
        seen_in="vllm-ascend #7807",
        law=laws.weighted(laws.block_token_residual, capped=True),
    ),
    Fault(
        name="greedy-no-state",
        contract="step",
        rule=greedy_no_state,
        summary="greedy block verification without its carried state",
        seen_in="Sun et al. 2025, appendix C",
    ),
)

"""Block verification: the block is judged as a whole, optimal among rules without state.

References
----------
.. [1] Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025,
       algorithm 2 and theorem 2.
"""

from typing import Any

import numpy as np

from simverify.verifiers.base import Array, Verifier, draw, excess


def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Keep the longest sub-block whose own coin falls below h_i; the scan never stops early.

    ``target_probs`` (gamma+1, V) and ``draft_probs`` (gamma, V) rows sum to 1;
    ``draft_tokens`` int (gamma,). Returns 1 to gamma+1 tokens.
    """
    gamma = len(draft_tokens)
    weight = kept_weight = 1
    tau = 0
    for i, x in enumerate(draft_tokens):
        q = draft_probs[i][x]
        # A token that the draft cannot emit is not accepted either: 0/0 counts as 0.
        weight = min(1, weight * target_probs[i][x] / q) if q > 0 else 0
        if i + 1 < gamma:
            residual = excess(weight * target_probs[i + 1], draft_probs[i + 1]).sum()
            room = residual + 1 - weight
            threshold = residual / room if room > 0 else 1
        else:
            threshold = weight
        if rng.random() < threshold:
            tau, kept_weight = i + 1, weight
    p = target_probs[tau]
    last_law = excess(kept_weight * p, draft_probs[tau]) if tau < gamma else p
    return [*map(int, draft_tokens[:tau]), draw(last_law, p, rng)]


def tree_step(m: Array, b: Array, f: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """f(x^l) = min(f(x^(l-1)) p, Ms(x^l)) [1]; the excess leaves through the residual."""
    kept, drafted = f * p, m * q
    return np.minimum(kept, drafted), excess(kept, drafted)


BLOCK = Verifier(
    name="block",
    contract="verify",
    rule=verify,
    tree_step=tree_step,
    summary="judge the block as a whole; optimal without state",
    citation="Sun et al. 2025, algorithm 2",
    kernel="simverify.simulators.kernels.chains:BLOCK",
    keeps_equals=True,
    bounds="block",
)

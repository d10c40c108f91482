"""Token verification: each draft token is judged alone, in order.

References
----------
.. [1] Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative
       Decoding", ICML 2023, algorithm 1.
.. [2] Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling",
       2023.
"""

from typing import Any

import numpy as np

from simverify.verifiers.base import Array, Verifier, draw, excess


def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Accept x with probability min(1, p/q); at the first rejection emit from (p - q)+.

    ``target_probs`` (gamma+1, V) and ``draft_probs`` (gamma, V) rows sum to 1;
    ``draft_tokens`` int (gamma,). Returns 1 to gamma+1 tokens.
    """
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not rng.random() < p[x] / q[x]:
            return [*map(int, draft_tokens[:i]), draw(excess(p, q), p, rng)]
    bonus = target_probs[-1]
    return [*map(int, draft_tokens), draw(bonus, bonus, rng)]


def tree_step(m: Array, b: Array, f: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """f(x^l) = f(x^(l-1)) min(p, q); what is missing leaves through the residual."""
    return f * np.minimum(p, q), f * excess(p, q)


TOKEN = Verifier(
    name="token",
    contract="verify",
    rule=verify,
    tree_step=tree_step,
    summary="judge each draft token alone",
    citation="Leviathan et al. 2022; Chen et al. 2023",
    kernel="simverify.simulators.kernels.chains:TOKEN",
    kept="simverify.simulators.exact.laws:token_accepted_mass",
    keeps_equals=True,
)

"""Sample and match: the target draws its own token; the draft is kept while it agrees.

References
----------
.. [1] Chen et al., 2023, and Miao et al., "SpecInfer", 2023, as naive sampling. Needs no q;
       token and block verification with a one-hot q have the same law.
"""

from typing import Any

from simverify.verifiers.base import Array, Verifier, draw


def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Emit the target's own draws up to and including the first that differs from the draft.

    ``target_probs`` (gamma+1, V), rows sum to 1; ``draft_probs`` is not read;
    ``draft_tokens`` int (gamma,). Returns 1 to gamma+1 tokens.
    """
    tokens: list[int] = []
    for p in target_probs:
        tokens.append(draw(p, p, rng))
        if len(tokens) > len(draft_tokens) or tokens[-1] != draft_tokens[len(tokens) - 1]:
            break
    return tokens


def tree_step(m: Array, b: Array, f: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """f(x^l) = f(x^(l-1)) p q; the target's token y differs from the draft's with 1 - q(y)."""
    own = f * p
    return own * q, own * (1 - q)


MATCH = Verifier(
    name="match",
    contract="verify",
    rule=verify,
    tree_step=tree_step,
    summary="keep the draft while the target's own sample agrees; needs no q",
    citation="Chen et al. 2023; Miao et al. 2023",
    kernel="simverify.simulators.kernels.chains:MATCH",
    kept="simverify.simulators.exact.laws:match_accepted_mass",
)

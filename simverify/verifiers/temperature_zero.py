"""Temperature 0: keep the draft while it equals the target's most likely token.

Lossless for a target at temperature 0, whose rows are one-hot; there token, block and match
coincide with it. On any other target it is lossy, and an audit says so.

References
----------
.. [1] Stern, Shazeer and Uszkoreit, "Blockwise Parallel Decoding", NeurIPS 2018.
"""

from typing import Any

import numpy as np

from simverify.verifiers.base import Array, Verifier


def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Emit the target's modes up to and including the first that differs from the draft.

    ``target_probs`` (gamma+1, V); ``draft_probs`` and ``rng`` are not read; ``draft_tokens``
    int (gamma,). Among equal probabilities the lowest id wins. Returns 1 to gamma+1 tokens.
    """
    tokens: list[int] = []
    for p in target_probs:
        tokens.append(int(np.argmax(p)))
        if len(tokens) > len(draft_tokens) or tokens[-1] != draft_tokens[len(tokens) - 1]:
            break
    return tokens


def mode(p: Array) -> Array:
    """Return one-hot rows (n, V) at the mode of each row."""
    one_hot: Array = np.arange(p.shape[1]) == np.argmax(p, axis=1)[:, None]
    return one_hot.astype(p.dtype)


def tree_step(m: Array, b: Array, f: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """f(x^l) = f(x^(l-1)) q where x_l is the mode; the mode is emitted otherwise."""
    own = f * mode(p)
    return own * q, own * (1 - q)


TEMPERATURE_ZERO = Verifier(
    name="temperature-0",
    contract="verify",
    rule=verify,
    tree_step=tree_step,
    summary="keep the draft while it is the target's most likely token",
    citation="Stern et al. 2018",
    bonus=mode,
    kernel="simverify.simulators.kernels.chains:ARGMAX",
    kept="simverify.simulators.exact.laws:argmax_accepted_mass",
    modes=True,
)

"""Right acceptance, wrong last token: the acceptance rate shows nothing of these."""

from typing import Any

import numpy as np

from simverify.faults.base import Fault, accepted, keep
from simverify.verifiers.base import Array, draw, excess


def residual_row_zero(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Take residual and bonus from row 0, whatever the row of the rejection."""
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[0]
    law = excess(p, draft_probs[0]) if tau < len(draft_tokens) else p
    return keep(draft_tokens, tau, draw(law, p, rng))


def wrong_bonus_row(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Take the bonus from the row before its own."""
    gamma = len(draft_tokens)
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[min(tau, gamma - 1)]
    law = excess(p, draft_probs[tau]) if tau < gamma else p
    return keep(draft_tokens, tau, draw(law, p, rng))


def one_hot_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Subtract q at the drafted token only, as if the draft were one-hot."""
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    law = p.copy()
    if tau < len(draft_tokens):
        x = draft_tokens[tau]
        law[x] = max(p[x] - draft_probs[tau][x], 0)
    return keep(draft_tokens, tau, draw(law, p, rng))


def softmax_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Normalise the residual with a softmax: every token gets a share."""
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    law = np.exp(excess(p, draft_probs[tau])) if tau < len(draft_tokens) else p
    return keep(draft_tokens, tau, draw(law, p, rng))


def target_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Emit a fresh target sample after a rejection."""
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    return keep(draft_tokens, tau, draw(p, p, rng))


RESIDUAL_FAULTS = (
    Fault(
        name="residual-row-zero",
        contract="verify",
        rule=residual_row_zero,
        summary="residual and bonus always from row 0; invisible at position 0",
        seen_in="FlashInfer #425",
    ),
    Fault(
        name="wrong-bonus-row",
        contract="verify",
        rule=wrong_bonus_row,
        summary="bonus from target row gamma-1 instead of gamma",
        seen_in="synthetic",
    ),
    Fault(
        name="one-hot-residual",
        contract="verify",
        rule=one_hot_residual,
        summary="accepts with min(1, p/q) but subtracts q only at the drafted token",
        seen_in="xLLM #2175, early EAGLE",
    ),
    Fault(
        name="softmax-residual",
        contract="verify",
        rule=softmax_residual,
        summary="residual through a softmax",
        seen_in="Transformers #28508",
    ),
    Fault(
        name="target-residual",
        contract="verify",
        rule=target_residual,
        summary="a fresh target sample instead of the residual",
        seen_in="SPEC-RL #14",
    ),
)

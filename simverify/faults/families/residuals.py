"""Right acceptance, wrong last token: the acceptance rate shows nothing of these."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import emission_laws as laws
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


def unnormalised_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw by inverse CDF of max(p - q, 0) as it is: the rest of the unit is the last token's."""
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    if tau == len(draft_tokens):
        return keep(draft_tokens, tau, draw(p, p, rng))
    cdf = np.cumsum(excess(p, draft_probs[tau])[:-1])
    u = rng.random()
    last = next((token for token, bound in enumerate(cdf) if u < bound), len(p) - 1)
    return keep(draft_tokens, tau, last)


def _corrected(process: Callable[[Array], Array]) -> Callable[..., list[int]]:
    """Return token verification that draws from ``process(p - q)``."""

    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        tau = accepted(target_probs, draft_probs, draft_tokens, rng)
        p = target_probs[tau]
        law = process(p - draft_probs[tau]) if tau < len(draft_tokens) else p
        return keep(draft_tokens, tau, draw(law, p, rng))

    return verify


def floored_residual(floor: float) -> Fault:
    """Fault that clamps the residual at ``floor`` where it should at 0."""
    if not 0 < floor < 1:
        raise UsageError(f"floored-residual({floor:g}): pass a floor between 0 and 1")
    return Fault(
        name=f"floored-residual({floor:g})",
        contract="verify",
        rule=_corrected(partial(np.maximum, floor)),
        summary=f"residual max(p - q, {floor:g}): every token gets a share",
        seen_in="synthetic",
        law=laws.slot_by_slot(partial(laws.floored_residual, floor=floor)),
    )


def top_k_residual(k: float) -> Fault:
    """Fault that draws among the ``k`` likeliest tokens of the residual; 1 is its argmax."""
    if not (k >= 1 and float(k).is_integer()):
        raise UsageError(f"top-k-residual({k:g}): pass a whole number of tokens, 1 or more")

    def top(row: Array) -> Array:
        kept = np.maximum(row, 0)
        kept[np.argsort(-kept, kind="stable")[int(k) :]] = 0
        return kept

    return Fault(
        name=f"top-k-residual({k:g})",
        contract="verify",
        rule=_corrected(top),
        summary=f"only the {k:g} likeliest tokens of the residual are drawn",
        seen_in="synthetic; samplers that truncate once more after verification",
        law=laws.slot_by_slot(partial(laws.top_k_residual, k=int(k))),
    )


RESIDUAL_FAULTS = (
    Fault(
        name="residual-row-zero",
        contract="verify",
        rule=residual_row_zero,
        summary="residual and bonus always from row 0; invisible at position 0",
        seen_in="FlashInfer #425",
        law=laws.residual_row_zero,
    ),
    Fault(
        name="wrong-bonus-row",
        contract="verify",
        rule=wrong_bonus_row,
        summary="bonus from target row gamma-1 instead of gamma",
        seen_in="synthetic",
        law=laws.wrong_bonus_row,
    ),
    Fault(
        name="one-hot-residual",
        contract="verify",
        rule=one_hot_residual,
        summary="accepts with min(1, p/q) but subtracts q only at the drafted token",
        seen_in="xLLM #2175, early EAGLE",
        law=laws.slot_by_slot(laws.one_hot_residual),
    ),
    Fault(
        name="softmax-residual",
        contract="verify",
        rule=softmax_residual,
        summary="residual through a softmax",
        seen_in="Transformers #28508",
        law=laws.slot_by_slot(laws.softmax_residual),
    ),
    Fault(
        name="target-residual",
        contract="verify",
        rule=target_residual,
        summary="a fresh target sample instead of the residual",
        seen_in="SPEC-RL #14",
        law=laws.slot_by_slot(laws.target_residual),
    ),
    Fault(
        name="unnormalised-residual",
        contract="verify",
        rule=unnormalised_residual,
        summary="inverse CDF of max(p - q, 0) that is not divided by its sum",
        seen_in="synthetic",
        law=laws.slot_by_slot(laws.unnormalised_residual),
    ),
    floored_residual(1e-5),
    top_k_residual(1),
)

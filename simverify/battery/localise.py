"""Which part of a verifier a rejection points at; "not localised" where it points at none.

Without an error rate: whether there is a fault is what the tests say, at their level; where
it sits is read from what they found.
"""

from dataclasses import dataclass
from typing import Literal

from simverify.battery.naming import Named

Part = Literal["accept", "residual", "bonus", "draft contract", "row plumbing", "random stream"]

PARTS: dict[str, Part] = {
    "inverted-ratio": "accept",
    "double-chance": "accept",
    "scaled-acceptance": "accept",
    "lenient": "accept",
    "typical-acceptance": "accept",
    "draft-leak": "accept",
    "relaxed-acceptance": "accept",
    "entropy-scaled": "accept",
    "forced-top": "accept",
    "one-hot-residual": "residual",
    "softmax-residual": "residual",
    "target-residual": "residual",
    "unnormalised-residual": "residual",
    "floored-residual": "residual",
    "top-k-residual": "residual",
    "naive-block-stealth": "residual",
    "wrong-bonus-row": "bonus",
    "argmax-draft-soft-q": "draft contract",
    "truncated-draft-soft-q": "draft contract",
    "rounded-q": "draft contract",
    "draft-temperature": "draft contract",
    "residual-row-zero": "row plumbing",
    "previous-row": "row plumbing",
    "target-temperature": "row plumbing",
    "reused-uniform": "random stream",
    "one-uniform": "random stream",
}
"""Where each fault with a law sits, by its name without parameter."""

_CLEAN, _SURE = -7.0, -14.0
"""Log p-values: above the first a slot is clean, below the second it deviates."""


@dataclass(frozen=True)
class Evidence:
    """What there is to read.

    ``independence``, ``tokens``: whether tests of that kind rejected. ``by_slot``: log p-value
    of each slot's tokens. ``bonus``: its index in them, None where positions are not slots.
    ``accepted_too_much``: an accepted token has more mass than the target gives it, in some
    slot; ``accepts_as_token``: tokens are accepted as the token rule does. Both None where
    accepted tokens are not seen apart. ``lossy``: more is accepted than any lossless rule may.
    """

    independence: bool
    tokens: bool
    lossy: bool
    by_slot: tuple[float, ...]
    bonus: int | None
    named: Named | None
    accepted_too_much: bool | None = None
    accepts_as_token: bool | None = None


@dataclass(frozen=True)
class Located:
    """The ``part`` that failed, None if not localised, and ``why``.

    ``position``: the first that deviates, from 0; None where no single one shows it.
    """

    part: Part | None
    position: int | None
    why: str


def locate(found: Evidence) -> Located:
    """Return where the evidence points, the most specific reason first."""
    off = [i for i, log_p in enumerate(found.by_slot) if log_p < _SURE]
    position = off[0] if off else None
    if found.independence and not found.tokens:
        why = "each call's tokens follow the target, but calls or rows depend on each other"
        return Located("random stream", None, why)
    if found.bonus is not None and off == [found.bonus] and _clean_but(found):
        return Located("bonus", position, "the bonus slot alone deviates")
    named = found.named
    if named is not None and named.best is not None and named.fits:
        fault = named.best.fault
        why = f"{fault} explains {named.explains:.0%} of the deviation"
        return Located(PARTS[fault.partition("(")[0]], position, why)
    if found.accepted_too_much:
        why = "accepted tokens have more mass than the target gives them"
        return Located("accept", position, why)
    if found.accepts_as_token and off and off[0] != found.bonus:
        why = "tokens are accepted as they should be, but rejections give others in their place"
        return Located("residual", position, why)
    if found.lossy:
        return Located("accept", position, "more is accepted than any lossless rule may accept")
    return Located(None, position, "no part of the verifier alone explains what was found")


def _clean_but(found: Evidence) -> bool:
    return all(p > _CLEAN for i, p in enumerate(found.by_slot) if i != found.bonus)

"""Right rule, wrong rows: of another slot, or processed on one side alone."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import emission_laws as laws
from simverify.faults.base import Fault, tempered, token_rule
from simverify.verifiers.base import Array


def swapped_rows(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Read each draft row from the next slot, the last from the first."""
    return token_rule(target_probs, np.roll(draft_probs, -1, axis=0), draft_tokens, rng)


def previous_row(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Read each target row but the first from the slot before."""
    rows = np.concatenate([target_probs[:1], target_probs[:-1]])
    return token_rule(rows, draft_probs, draft_tokens, rng)


def next_row(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Read each target row but the last from the next slot."""
    rows = np.concatenate([target_probs[1:], target_probs[-1:]])
    return token_rule(rows, draft_probs, draft_tokens, rng)


def _at_temperature(temperature: float) -> Callable[..., list[int]]:
    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        rows = np.array([tempered(row, temperature) for row in target_probs])
        return token_rule(rows, draft_probs, draft_tokens, rng)

    return verify


def target_temperature(temperature: float) -> Fault:
    """Fault that verifies with target rows at ``temperature``, declared as temperature 1."""
    if not 0 < temperature < float("inf") or temperature == 1:
        raise UsageError(
            f"target-temperature({temperature:g}): pass a positive temperature other than 1"
        )
    return Fault(
        name=f"target-temperature({temperature:g})",
        contract="verify",
        rule=_at_temperature(temperature),
        summary=f"target rows at T = {temperature:g}, declared as T = 1",
        seen_in="engines that apply a temperature to one side",
        law=laws.everywhere(lambda row: tempered(row, temperature)),
    )


ROW_FAULTS = (
    Fault(
        name="swapped-rows",
        contract="verify",
        rule=swapped_rows,
        summary="every draft row is that of another slot",
        seen_in="ragged batches",
    ),
    Fault(
        name="previous-row",
        contract="verify",
        rule=previous_row,
        summary="target rows one slot late: row i-1 judges slot i",
        seen_in="synthetic",
        law=laws.previous_row,
    ),
    Fault(
        name="next-row",
        contract="verify",
        rule=next_row,
        summary="target rows one slot early: row i+1 judges slot i",
        seen_in="synthetic",
    ),
    target_temperature(0.9),
)

"""Right rule, wrong rows: of another slot, processed on one side alone, or not those drafted from.

In the last kind the draft is sampled from one law and another one is reported.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import emission_laws as laws
from simverify.faults.base import Fault, tempered, token_rule
from simverify.verifiers.base import Array
from simverify.verifiers.greedy import Prefix


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


def _judging_at(temperature: float) -> Callable[..., list[int]]:
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
        rule=_judging_at(temperature),
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


Law = Callable[[Prefix], Array]
Process = Callable[[Array, Prefix], Array]
"""From the draft's own row (V,) and the prefix to the row that is sampled or reported."""

_PENALTY = 1.3


def drafted(sampled: Process, reported: Process) -> Callable[..., list[int]]:
    """Return a step rule: drafts from ``sampled`` rows, token verification of ``reported``."""

    def step(prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any) -> list[int]:
        context = tuple(prefix)
        target_rows, draft_rows, tokens = [target(context)], [], []
        for _ in range(gamma):
            row = sampled(draft(context), context)
            draft_rows.append(reported(draft(context), context))
            tokens.append(int(rng.choice(len(row), p=row)))
            context = (*context, tokens[-1])
            target_rows.append(target(context))
        rows = np.array(target_rows), np.array(draft_rows), np.array(tokens)
        return token_rule(*rows, rng)

    return step


def plain(row: Array, prefix: Prefix) -> Array:
    """Return the row itself."""
    return row


def mode(row: Array, prefix: Prefix) -> Array:
    """Return the row's argmax, one-hot."""
    one_hot: Array = (np.arange(len(row)) == np.argmax(row)).astype(np.float64)
    return one_hot


def top_two(row: Array, prefix: Prefix) -> Array:
    """Return the row truncated to its two likeliest tokens."""
    kept = row.copy()
    kept[np.argsort(row, kind="stable")[:-2]] = 0
    truncated: Array = kept / kept.sum()
    return truncated


def bfloat16(row: Array, prefix: Prefix) -> Array:
    """Return the row rounded to bfloat16, ties to even."""
    bits = row.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    reported: Array = (rounded << np.uint32(16)).view(np.float32).astype(np.float64)
    return reported


def penalised(row: Array, prefix: Prefix) -> Array:
    """Return the row with a repetition penalty on the tokens of the prefix."""
    kept = row.copy()
    kept[list(set(prefix))] /= _PENALTY
    processed: Array = kept / kept.sum()
    return processed


def at_temperature(temperature: float) -> Process:
    """Return the process that applies ``temperature`` to a row."""

    def process(row: Array, prefix: Prefix) -> Array:
        return tempered(row, temperature)

    return process


def _law(sampled: Process, reported: Process) -> laws.EmissionLaw:
    """Emission law of ``drafted(sampled, reported)`` for processes that need no prefix."""
    return laws.slot_by_slot(lambda p, q: laws.misreported(p, sampled(q, ()), reported(q, ())))


def draft_temperature(temperature: float) -> Fault:
    """Fault that samples the draft at ``temperature`` and declares temperature 1."""
    if not 0 < temperature < float("inf") or temperature == 1:
        raise UsageError(
            f"draft-temperature({temperature:g}): pass a positive temperature other than 1"
        )
    return Fault(
        name=f"draft-temperature({temperature:g})",
        contract="step",
        rule=drafted(at_temperature(temperature), plain),
        summary=f"the draft is sampled at T = {temperature:g} but declared as T = 1",
        seen_in="engines that return raw logits as q",
        law=_law(at_temperature(temperature), plain),
    )


DRAFT_FAULTS = (
    Fault(
        name="argmax-draft-soft-q",
        contract="step",
        rule=drafted(mode, plain),
        summary="the draft is an argmax but the full softmax is reported as q",
        seen_in="Transformers #32867, #47932",
        law=_law(mode, plain),
    ),
    Fault(
        name="truncated-draft-soft-q",
        contract="step",
        rule=drafted(top_two, plain),
        summary="the draft is truncated to two tokens but the full softmax is reported as q",
        seen_in="Transformers #32867, #47932",
        law=_law(top_two, plain),
    ),
    Fault(
        name="rounded-q",
        contract="step",
        rule=drafted(plain, bfloat16),
        summary="the draft is sampled in full precision and reported in bfloat16",
        seen_in="engines that keep q in bfloat16",
        law=_law(plain, bfloat16),
    ),
    Fault(
        name="one-sided-penalty",
        contract="step",
        rule=drafted(penalised, plain),
        summary="the draft is sampled with a repetition penalty that the reported q lacks",
        seen_in="engines that apply penalties to one side",
    ),
    draft_temperature(0.9),
)

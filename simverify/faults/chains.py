"""Faults of rules for a single draft: wrong acceptance, residuals, rows, drafts, block rules."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from simverify.errors import UsageError
from simverify.faults import base as laws
from simverify.faults.base import (
    Fault,
    acceptance_ratio,
    accepted_count,
    emit_after,
    prefix_and_last,
    tempered,
    token_rule,
)
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.greedy import GreedyBlock, Prefix

# Wrong acceptance by mistake, with the token rule's own residual.


def count_all_accepts(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Keep as many tokens as were accepted anywhere, not the accepted prefix."""
    tau = 0
    for i, x in enumerate(draft_tokens):
        if rng.random() < acceptance_ratio(target_probs[i][x], draft_probs[i][x]):
            tau += 1
    return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)


def inverted_ratio(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept with min(1, q/p)."""
    tau = accepted_count(draft_probs, target_probs, draft_tokens, rng)
    return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)


def double_chance(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept also when an independent target sample equals the draft."""
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not rng.random() < acceptance_ratio(p[x], q[x]) and draw(p, p, rng) != x:
            return emit_after(target_probs, draft_probs, draft_tokens, i, rng)
    return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def openvino_draft(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept if a coin of 0, .01, .. 1 is at most q(x)/p(y), of a token y that is drawn from p.

    After a rejection the next token is drawn from the row after the rejected one. In the engine
    draft and target draw from generators of one seed, too, so y is often x.
    """
    for i, x in enumerate(draft_tokens):
        p = target_probs[i]
        y = draw(p, p, rng)
        coins = np.floor(100 * draft_probs[i][x] / p[y]) + 1
        if not rng.random() < coins / 101:
            after = target_probs[i + 1]
            return prefix_and_last(draft_tokens, i, draw(after, after, rng))
    last = target_probs[len(draft_tokens)]
    return prefix_and_last(draft_tokens, len(draft_tokens), draw(last, last, rng))


def zero_mass_accept(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Reject only if u > p/q: u = 0 accepts a token with p = 0, and 0/0 accepts always."""
    for i, x in enumerate(draft_tokens):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = target_probs[i][x] / draft_probs[i][x]
        if rng.random() > ratio:
            return emit_after(target_probs, draft_probs, draft_tokens, i, rng)
    return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def _rule_with_scaled_acceptance(factor: float) -> Callable[..., list[int]]:
    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        tau = accepted_count(factor * target_probs, draft_probs, draft_tokens, rng)
        return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)

    return verify


def scaled_acceptance(factor: float) -> Fault:
    """Fault that accepts with min(1, factor p/q)."""
    if not 0 < factor < float("inf") or factor == 1:
        raise UsageError(f"scaled-acceptance({factor:g}): pass a positive factor other than 1")
    return Fault(
        name=f"scaled-acceptance({factor:g})",
        contract="verify",
        rule=_rule_with_scaled_acceptance(factor),
        summary=f"accepts with min(1, {factor:g} p/q)",
        seen_in="synthetic",
        law=laws.slot_by_slot(partial(laws.scaled_acceptance, factor=factor)),
    )


ACCEPTANCE_FAULTS = (
    Fault(
        name="count-all-accepts",
        contract="verify",
        rule=count_all_accepts,
        summary="number of accepts instead of the accepted prefix",
        seen_in="lucidrains, 2023",
    ),
    Fault(
        name="inverted-ratio",
        contract="verify",
        rule=inverted_ratio,
        summary="accepts with min(1, q/p)",
        seen_in="a published summary of block verification",
        law=laws.slot_by_slot(laws.inverted_ratio),
    ),
    Fault(
        name="double-chance",
        contract="verify",
        rule=double_chance,
        summary="accepts also when an independent target sample equals the draft",
        seen_in="rtp-llm #1295",
        law=laws.slot_by_slot(laws.double_chance),
    ),
    Fault(
        name="openvino-draft",
        contract="verify",
        rule=openvino_draft,
        summary="accepts with q(x)/p(y), y drawn from p; rejected, draws from the row after x",
        seen_in="OpenVINO GenAI 2026.4.1.0, validate_candidate in sampler.cpp",
    ),
    Fault(
        name="zero-mass-accept",
        contract="verify",
        rule=zero_mass_accept,
        summary="u = 0 or 0/0 accepts a token with p = 0",
        seen_in="SGLang #35771, TensorRT-LLM",
        caught_by="probe",
        severity="warning",
    ),
    scaled_acceptance(1.1),
    scaled_acceptance(1.01),
    scaled_acceptance(1.0001),
)


# Block verification gone wrong.
#
# References
# ----------
# .. [1] Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025,
# algorithms 2 and 4, appendix C.


def naive_block(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Compare products of min(1, p/q) with products of uniforms; the scan never stops."""
    tau, weight, product = 0, 1.0, 1.0
    for i, x in enumerate(draft_tokens):
        weight = weight * acceptance_ratio(target_probs[i][x], draft_probs[i][x])
        product = product * rng.random()
        if product < weight:
            tau = i + 1
    return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)


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
    return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)


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
        law=laws.weighted_slot_law(laws.block_token_residual, capped=True),
    ),
    Fault(
        name="greedy-no-state",
        contract="step",
        rule=greedy_no_state,
        summary="greedy block verification without its carried state",
        seen_in="Sun et al. 2025, appendix C",
    ),
)


# Right acceptance, wrong last token: the acceptance rate shows nothing of these.


def residual_row_zero(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Take residual and bonus from row 0, whatever the row of the rejection."""
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[0]
    law = excess(p, draft_probs[0]) if tau < len(draft_tokens) else p
    return prefix_and_last(draft_tokens, tau, draw(law, p, rng))


def wrong_bonus_row(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Take the bonus from the row before its own."""
    gamma = len(draft_tokens)
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[min(tau, gamma - 1)]
    law = excess(p, draft_probs[tau]) if tau < gamma else p
    return prefix_and_last(draft_tokens, tau, draw(law, p, rng))


def one_hot_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Subtract q at the drafted token only, as if the draft were one-hot."""
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    law = p.copy()
    if tau < len(draft_tokens):
        x = draft_tokens[tau]
        law[x] = max(p[x] - draft_probs[tau][x], 0)
    return prefix_and_last(draft_tokens, tau, draw(law, p, rng))


def softmax_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Normalise the residual with a softmax: every token gets a share."""
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    law = np.exp(excess(p, draft_probs[tau])) if tau < len(draft_tokens) else p
    return prefix_and_last(draft_tokens, tau, draw(law, p, rng))


def target_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Emit a fresh target sample after a rejection."""
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    return prefix_and_last(draft_tokens, tau, draw(p, p, rng))


def unnormalised_residual(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw by inverse CDF of max(p - q, 0) as it is: the rest of the unit is the last token's."""
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[tau]
    if tau == len(draft_tokens):
        return prefix_and_last(draft_tokens, tau, draw(p, p, rng))
    cdf = np.cumsum(excess(p, draft_probs[tau])[:-1])
    u = rng.random()
    last = next((token for token, bound in enumerate(cdf) if u < bound), len(p) - 1)
    return prefix_and_last(draft_tokens, tau, last)


def _rule_with_residual(process: Callable[[Array], Array]) -> Callable[..., list[int]]:
    """Return token verification that draws from ``process(p - q)``."""

    def verify(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
        tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
        p = target_probs[tau]
        law = process(p - draft_probs[tau]) if tau < len(draft_tokens) else p
        return prefix_and_last(draft_tokens, tau, draw(law, p, rng))

    return verify


def floored_residual(floor: float) -> Fault:
    """Fault that clamps the residual at ``floor`` where it should at 0."""
    if not 0 < floor < 1:
        raise UsageError(f"floored-residual({floor:g}): pass a floor between 0 and 1")
    return Fault(
        name=f"floored-residual({floor:g})",
        contract="verify",
        rule=_rule_with_residual(partial(np.maximum, floor)),
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
        rule=_rule_with_residual(top),
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


# Right rule, wrong rows: of another slot, processed on one side alone, or not those drafted from.
#
# In the last kind the draft is sampled from one law and another one is reported.


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


def _rule_at_temperature(temperature: float) -> Callable[..., list[int]]:
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
        rule=_rule_at_temperature(temperature),
        summary=f"target rows at T = {temperature:g}, declared as T = 1",
        seen_in="engines that apply a temperature to one side",
        law=laws.processed_target_law(lambda row: tempered(row, temperature)),
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
PrefixProcess = Callable[[Array, Prefix], Array]
"""From the draft's own row (V,) and the prefix to the row that is sampled or reported."""

_PENALTY = 1.3


def drafted(sampled: PrefixProcess, reported: PrefixProcess) -> Callable[..., list[int]]:
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


def at_temperature(temperature: float) -> PrefixProcess:
    """Return the process that applies ``temperature`` to a row."""

    def process(row: Array, prefix: Prefix) -> Array:
        return tempered(row, temperature)

    return process


def _drafted_emission_law(sampled: PrefixProcess, reported: PrefixProcess) -> laws.EmissionLaw:
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
        law=_drafted_emission_law(at_temperature(temperature), plain),
    )


DRAFT_FAULTS = (
    Fault(
        name="argmax-draft-soft-q",
        contract="step",
        rule=drafted(mode, plain),
        summary="the draft is an argmax but the full softmax is reported as q",
        seen_in="Transformers #32867, #47932",
        law=_drafted_emission_law(mode, plain),
    ),
    Fault(
        name="truncated-draft-soft-q",
        contract="step",
        rule=drafted(top_two, plain),
        summary="the draft is truncated to two tokens but the full softmax is reported as q",
        seen_in="Transformers #32867, #47932",
        law=_drafted_emission_law(top_two, plain),
    ),
    Fault(
        name="rounded-q",
        contract="step",
        rule=drafted(plain, bfloat16),
        summary="the draft is sampled in full precision and reported in bfloat16",
        seen_in="engines that keep q in bfloat16",
        law=_drafted_emission_law(plain, bfloat16),
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

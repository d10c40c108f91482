"""All faults and controls by name, with the parameters in the names, and each fault's distance."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.faults.base import (
    Control,
    Fault,
    acceptance_ratio,
    emit_after,
    inverse_cdf,
    prefix_and_last,
)
from simverify.faults.calls import (
    BATCH_FAULTS,
    DECLARED_FAULTS,
    MIXED_BATCH_FAULTS,
    PATH_FAULTS,
    RANDOMNESS_FAULTS,
    STYLE_CONTROLS,
    MixedBatchFault,
    draft_leak,
    entropy_scaled,
    forced_top,
    judge_mixed_batch,
    lenient,
    relaxed_acceptance,
)
from simverify.faults.chains import (
    ACCEPTANCE_FAULTS,
    BLOCK_FAULTS,
    DRAFT_FAULTS,
    RESIDUAL_FAULTS,
    ROW_FAULTS,
    at_temperature,
    draft_temperature,
    drafted,
    floored_residual,
    plain,
    scaled_acceptance,
    target_temperature,
    top_k_residual,
)
from simverify.faults.drafters import DRAFTER_FAULTS
from simverify.faults.trees import SIBLING_FAULTS, TREE_FAULTS
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.greedy import Prefix

# Controls: correct rules that are often reported as bugs. An audit must pass them.


Law = Callable[[Prefix], Array]


def sample_and_match(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Emit the target's own draws, whatever the draft, as long as the draft agrees."""
    own = [draw(p, p, rng) for p in target_probs]
    tau = 0
    while tau < len(draft_tokens) and own[tau] == draft_tokens[tau]:
        tau += 1
    return own[: tau + 1]


def one_hot_verification(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Accept x with probability p(x), as if q were one-hot; the residual is p without x."""
    for i, x in enumerate(draft_tokens):
        p = target_probs[i]
        if not rng.random() < p[x]:
            rest = p.copy()
            rest[x] = 0
            return prefix_and_last(draft_tokens, i, draw(rest, p, rng))
    bonus = target_probs[-1]
    return prefix_and_last(draft_tokens, len(draft_tokens), draw(bonus, bonus, rng))


def rescaled_uniform(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the residual with the uniform that rejected, stretched back to [0, 1)."""
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        a = acceptance_ratio(p[x], q[x])
        u = rng.random()
        if not u < a:
            # Given a rejection u is uniform on [a, 1): stretched, it is a fresh uniform.
            return prefix_and_last(draft_tokens, i, inverse_cdf(excess(p, q), p, (u - a) / (1 - a)))
    return emit_after(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def past_a_rejection(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Block verification: the longest accepted sub-block counts, rejected ones before or not.

    Sun et al. 2025, algorithm 2.
    """
    gamma = len(draft_tokens)
    slots = np.arange(gamma)
    weights, weight = np.ones(gamma + 1), 1.0
    for i, ratio in enumerate(target_probs[slots, draft_tokens] / draft_probs[slots, draft_tokens]):
        weights[i + 1] = weight = min(1.0, weight * ratio)
    residuals = excess(weights[1:gamma, None] * target_probs[1:gamma], draft_probs[1:]).sum(axis=1)
    room = residuals + 1 - weights[1:gamma]
    inner = np.divide(residuals, room, out=np.ones(gamma - 1), where=room > 0)
    kept = np.flatnonzero(rng.random(gamma) < np.append(inner, weights[gamma]))
    tau = int(kept[-1]) + 1 if len(kept) else 0
    p = target_probs[tau]
    law = excess(weights[tau] * p, draft_probs[tau]) if tau < gamma else p
    return prefix_and_last(draft_tokens, tau, draw(law, p, rng))


def coupled_match(
    prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
) -> list[int]:
    """Draw draft and target by Gumbel argmax with the same noise; emit the target's draws."""
    tokens: list[int] = []
    for _ in range(gamma):
        p, q = target((*prefix, *tokens)), draft((*prefix, *tokens))
        noise = rng.gumbel(size=len(p))
        with np.errstate(divide="ignore"):
            own, guess = (int(np.argmax(np.log(row) + noise)) for row in (p, q))
        tokens.append(own)
        if own != guess:
            return tokens
    bonus = target((*prefix, *tokens))
    return [*tokens, draw(bonus, bonus, rng)]


def cut_context_draft(
    prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
) -> list[int]:
    """Draft after the last token alone, as with a lost cache, and verify with that same q."""
    return _PLAIN_TOKEN(prefix, target, lambda context: draft(context[-1:]), gamma, rng)


_PLAIN_TOKEN = drafted(plain, plain)


_CONTROLS = (
    Control(
        name="sample-and-match",
        contract="verify",
        rule=sample_and_match,
        summary="emits the target's own draw, whatever the draft",
        why="it never looks at q",
    ),
    Control(
        name="one-hot-verification",
        contract="verify",
        rule=one_hot_verification,
        summary="sampled drafts verified as if q were one-hot",
        why="the q it uses is not the q that was sampled from",
    ),
    Control(
        name="hotter-draft",
        contract="step",
        rule=drafted(at_temperature(1.5), at_temperature(1.5)),
        summary="the draft is sampled at T = 1.5, with its true q",
        why="draft and target run at two temperatures",
    ),
    Control(
        name="cut-context-draft",
        contract="step",
        rule=cut_context_draft,
        summary="the draft sees the last token alone, and reports the q it sampled from",
        why="the draft's cache is broken: that costs acceptance, never losslessness",
    ),
    Control(
        name="past-a-rejection",
        contract="verify",
        rule=past_a_rejection,
        summary="block verification goes on past a rejected sub-block",
        why="tokens are kept after a coin that rejected",
    ),
    Control(
        name="rescaled-uniform",
        contract="verify",
        rule=rescaled_uniform,
        summary="the residual is drawn with the rejecting uniform, rescaled",
        why="it reuses a uniform, and is right to",
    ),
    Control(
        name="coupled-match",
        contract="step",
        rule=coupled_match,
        summary="sample and match with one noise for draft and target",
        why="draft and target share their noise",
    ),
)

CONTROLS = {control.name: control for control in (*_CONTROLS, *STYLE_CONTROLS)}


FAULTS = {
    fault.name: fault
    for fault in (
        *RESIDUAL_FAULTS,
        *ACCEPTANCE_FAULTS,
        *ROW_FAULTS,
        *BLOCK_FAULTS,
        *RANDOMNESS_FAULTS,
        *BATCH_FAULTS,
        *DRAFT_FAULTS,
        *DECLARED_FAULTS,
        *SIBLING_FAULTS,
        *TREE_FAULTS,
        *PATH_FAULTS,
        *DRAFTER_FAULTS,
    )
}
"""The catalogue; a fault with a parameter is listed with the values named here."""

MIXED_BATCH_RULES = {
    **MIXED_BATCH_FAULTS,
    "in-company": MixedBatchFault(
        "in-company", judge_mixed_batch, "the right twin: each request by the token rule", "all"
    ),
}
"""Rules for batches of requests that differ; all but ``in-company`` are wrong."""

FAULT_FAMILIES: dict[str, Callable[..., Fault]] = {
    "lenient": lenient,
    "draft-leak": draft_leak,
    "relaxed-acceptance": relaxed_acceptance,
    "entropy-scaled": entropy_scaled,
    "forced-top": forced_top,
    "scaled-acceptance": scaled_acceptance,
    "draft-temperature": draft_temperature,
    "target-temperature": target_temperature,
    "floored-residual": floored_residual,
    "top-k-residual": top_k_residual,
}
"""The faults with parameters: :func:`get_fault` takes any value, as in ``lenient(0.7)``."""


def get_fault(name: str) -> Fault:
    """Return the fault called ``name``, such as ``reused-uniform`` or ``lenient(0.7)``.

    Raises ``UsageError`` that names the nearest fault when there is none, or says what the
    parameter must be.
    """
    if name not in FAULTS and (match := re.fullmatch(r"([\w-]+)\((.*)\)", name)):
        family = FAULT_FAMILIES[pick_name(match[1], FAULT_FAMILIES, "fault with a parameter")]
        values = match[2].split(",")
        expected = len(inspect.signature(family).parameters)
        if len(values) != expected:
            raise UsageError(f"{name}: got {len(values)} numbers, expected {expected}")
        return family(*(_fault_parameter(name, value) for value in values))
    return FAULTS[pick_name(name, FAULTS, "fault")]


def _fault_parameter(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name}: {text!r} is no number, as in lenient(0.9)") from None


def get_control(name: str) -> Control:
    """Return the must-pass control called ``name``; ``UsageError`` names the nearest."""
    return CONTROLS[pick_name(name, CONTROLS, "control")]


COMPACT_TV = {
    "residual-row-zero": 0.124373,
    "wrong-bonus-row": 0.040461,
    "one-hot-residual": 0.101808,
    "softmax-residual": 0.159492,
    "target-residual": 0.145689,
    "unnormalised-residual": 0.055363,
    "floored-residual(1e-05)": 0.000022,
    "top-k-residual(1)": 0.094907,
    "count-all-accepts": 0.146016,
    "inverted-ratio": 0.402860,
    "double-chance": 0.078740,
    "openvino-draft": 0.394103,
    "zero-mass-accept": 0.0,
    "scaled-acceptance(1.1)": 0.052604,
    "scaled-acceptance(1.01)": 0.005182,
    "scaled-acceptance(1.0001)": 0.000052,
    "swapped-rows": 0.257928,
    "previous-row": 0.180411,
    "next-row": 0.237269,
    "target-temperature(0.9)": 0.024625,
    "naive-block": 0.290975,
    "naive-block-stealth": 0.049493,
    "greedy-no-state": 0.090741,
    "reused-uniform": 0.081349,
    "one-uniform": 0.074074,
    "shared-noise": 0.032201,
    "draft-uniform-as-coin": 0.207176,
    "repeated-stream": 0.167927,
    "argmax-draft-soft-q": 0.486111,
    "truncated-draft-soft-q": 0.139773,
    "rounded-q": 0.000543,
    "one-sided-penalty": 0.033538,
    "draft-temperature(0.9)": 0.016816,
    "lenient(0.9)": 0.058556,
    "typical-acceptance": 0.475694,
    "draft-leak(0.01)": 0.003272,
    "relaxed-acceptance(2,0.25)": 0.350694,
    "entropy-scaled(0.1)": 0.041250,
    "forced-top(2)": 0.231481,
}
"""TV distance from the target on the compact model at gamma 3, to 5e-7, by fault: of one
call's tokens completed with target samples (gamma+1 in all); for repeated-stream, which has
state, of the first gamma+1 tokens from ``reset``. seeded-per-call and seeded-per-request are
missing: their output depends on numpy's stream, and a rule without randomness is far off
whatever the seed. So are the faults of whole batches, and those of draft trees and of drafters."""

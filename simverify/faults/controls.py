"""Correct rules that are reported as bugs again and again: an audit must pass them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.faults.base import Control, acceptance, finish, invert, keep
from simverify.faults.families.rows import at_temperature, drafted, plain
from simverify.faults.families.styles import STYLES
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.greedy import Prefix

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
            return keep(draft_tokens, i, draw(rest, p, rng))
    bonus = target_probs[-1]
    return keep(draft_tokens, len(draft_tokens), draw(bonus, bonus, rng))


def rescaled_uniform(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the residual with the uniform that rejected, stretched back to [0, 1)."""
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        a = acceptance(p[x], q[x])
        u = rng.random()
        if not u < a:
            # Given a rejection u is uniform on [a, 1): stretched, it is a fresh uniform.
            return keep(draft_tokens, i, invert(excess(p, q), p, (u - a) / (1 - a)))
    return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


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
    return keep(draft_tokens, tau, draw(law, p, rng))


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
        why="the draft's cache is broken: that costs acceptance, never the law",
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

CONTROLS = {control.name: control for control in (*_CONTROLS, *STYLES)}

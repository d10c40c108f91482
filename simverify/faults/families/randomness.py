"""Right formulas, wrong randomness: draws that are shared, repeated or re-seeded."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.faults import emission_laws as laws
from simverify.faults.base import Fault, acceptance, finish, invert, keep
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.greedy import Prefix

Law = Callable[[Prefix], Array]


def reused_uniform(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the residual by inverse CDF with the uniform that just rejected."""
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        u = rng.random()
        if not u < acceptance(p[x], q[x]):
            return keep(draft_tokens, i, invert(excess(p, q), p, u))
    return finish(target_probs, draft_probs, draft_tokens, len(draft_tokens), rng)


def one_uniform(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Judge all slots with one uniform."""
    u = rng.random()
    tau = 0
    for i, x in enumerate(draft_tokens):
        if not u < acceptance(target_probs[i][x], draft_probs[i][x]):
            break
        tau = i + 1
    return finish(target_probs, draft_probs, draft_tokens, tau, rng)


_SEED = 20


def seeded_per_call(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Re-seed the generator before every draw: all draws of all calls are the same."""
    tau = 0
    for i, x in enumerate(draft_tokens):
        u = np.random.default_rng(_SEED).random()
        if not u < acceptance(target_probs[i][x], draft_probs[i][x]):
            break
        tau = i + 1
    return finish(target_probs, draft_probs, draft_tokens, tau, np.random.default_rng(_SEED))


def shared_noise(prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any) -> list[int]:
    """Draw draft and residual by Gumbel argmax with the same noise."""
    context, tokens, noises = tuple(prefix), [], []
    for _ in range(gamma):
        noises.append(rng.gumbel(size=len(draft(context))))
        tokens.append(int(np.argmax(_log(draft(context)) + noises[-1])))
        context = (*context, tokens[-1])
    for i, x in enumerate(tokens):
        here = (*prefix, *tokens[:i])
        p, q = target(here), draft(here)
        if not rng.random() < acceptance(p[x], q[x]):
            return keep(tokens, i, int(np.argmax(_log(excess(p, q)) + noises[i])))
    bonus = target(context)
    return keep(tokens, gamma, draw(bonus, bonus, rng))


def draft_uniform_as_coin(
    prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
) -> list[int]:
    """Judge each token by the uniform that drew it by inverse CDF."""
    tokens: list[int] = []
    for _ in range(gamma):
        context = (*prefix, *tokens)
        p, q, u = target(context), draft(context), rng.random()
        x = invert(q, q, u)
        if not u < acceptance(p[x], q[x]):
            return [*tokens, draw(excess(p, q), p, rng)]
        tokens.append(x)
    bonus = target((*prefix, *tokens))
    return [*tokens, draw(bonus, bonus, rng)]


def _log(row: Array) -> Array:
    with np.errstate(divide="ignore"):
        logs: Array = np.log(row)
    return logs


class RepeatedStream:
    """Judges slot i of every call with the uniform that judged slot i of the first one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a request: its uniforms are drawn when they are first needed."""
        self.uniforms: list[Any] = []

    def step(
        self, prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
    ) -> list[int]:
        """Draft and judge token by token; residual and bonus are drawn afresh."""
        tokens: list[int] = []
        for i in range(gamma):
            context = (*prefix, *tokens)
            p, q = target(context), draft(context)
            x = int(rng.choice(len(q), p=q))
            if i == len(self.uniforms):
                self.uniforms.append(rng.random())
            if not self.uniforms[i] < acceptance(p[x], q[x]):
                return [*tokens, draw(excess(p, q), p, rng)]
            tokens.append(x)
        bonus = target((*prefix, *tokens))
        return [*tokens, draw(bonus, bonus, rng)]


class SeededPerRequest:
    """Seeds its generator at every reset: all requests draw the same numbers."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a request with the draws that the last one started with."""
        self.rng: Any = np.random.default_rng(_SEED)

    def step(
        self, prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any
    ) -> list[int]:
        """Draft and judge token by token with the rule's own generator."""
        tokens: list[int] = []
        for _ in range(gamma):
            context = (*prefix, *tokens)
            p, q = target(context), draft(context)
            x = int(self.rng.choice(len(q), p=q))
            if not self.rng.random() < acceptance(p[x], q[x]):
                return [*tokens, draw(excess(p, q), p, self.rng)]
            tokens.append(x)
        bonus = target((*prefix, *tokens))
        return [*tokens, draw(bonus, bonus, self.rng)]


RANDOMNESS_FAULTS = (
    Fault(
        name="reused-uniform",
        contract="verify",
        rule=reused_uniform,
        summary="the residual is drawn by inverse CDF with the uniform that just rejected",
        seen_in="FlashInfer #424, SGLang #7207, vllm-ascend #16370",
        law=laws.slot_by_slot(laws.reused_uniform),
    ),
    Fault(
        name="one-uniform",
        contract="verify",
        rule=one_uniform,
        summary="one uniform judges all slots",
        seen_in="synthetic",
        law=laws.weighted(laws.one_uniform, capped=False),
    ),
    Fault(
        name="seeded-per-call",
        contract="verify",
        rule=seeded_per_call,
        summary="the generator is re-seeded before every draw",
        seen_in="feifeibear",
    ),
    Fault(
        name="shared-noise",
        contract="step",
        rule=shared_noise,
        summary="draft and residual are drawn with the same Gumbel noise",
        seen_in="vLLM #47386; engines whose noise depends on seed and position alone",
    ),
    Fault(
        name="draft-uniform-as-coin",
        contract="step",
        rule=draft_uniform_as_coin,
        summary="a token is judged by the uniform that drew it",
        seen_in="vLLM #47386, there the word of Philox that seeds the draft's noise",
    ),
    Fault(
        name="repeated-stream",
        contract="step",
        rule=RepeatedStream,
        summary="every call of a request is judged with the uniforms of its first call",
        seen_in="requests that share a stream",
    ),
    Fault(
        name="seeded-per-request",
        contract="step",
        rule=SeededPerRequest,
        summary="the generator is seeded with a constant at every reset",
        seen_in="engines with one seed for all requests",
    ),
)

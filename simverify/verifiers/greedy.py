"""Greedy block verification: accepts more in one call, and owes the difference to the next.

A call that keeps few tokens has taken more than its share of the draft's mass. The debt is
carried as a stack of entries (end, R), oldest first: before position ``end`` the verifier's
target is M_j, proportional to max(R_j M_{j-1} - Ms, 0), with M_0 = Mb. Without the carried
state the rule is lossy (appendix C).

References
----------
.. [1] Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025,
       algorithms 4 to 6, lemmas 8 to 10; joints are relative to the call's start, and "Mb"
       there is the current, possibly already modified target.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.verifiers.base import Array, Verifier, cap_ratio, draw, excess

Prefix = tuple[int, ...]
Stack = tuple[tuple[int, Any], ...]


class GreedyBlock:
    """The rule with its state: ``stack`` of (end position, R), empty after ``reset``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the debt: the next call starts a generation."""
        self.stack: Stack = ()

    def step(
        self,
        prefix: Sequence[int],
        target: Callable[[Prefix], Array],
        draft: Callable[[Prefix], Array],
        gamma: int,
        rng: Any,
    ) -> list[int]:
        """Draft ``gamma`` tokens after ``prefix``, verify them, return 1 to gamma+1 tokens.

        ``target(prefix)`` and ``draft(prefix)`` return rows (V,) that sum to 1.
        """
        context = tuple(prefix)
        drafts, tokens = [], []
        for _ in range(gamma):
            drafts.append(draft(context))
            tokens.append(int(rng.choice(len(drafts[-1]), p=drafts[-1])))
            context = (*context, tokens[-1])
        here = len(prefix)
        rows = [target(context[: here + i]) for i in range(gamma + 1)]
        return self.judge(here, rows, drafts, tokens, rng)

    def judge(
        self,
        position: int,
        target_probs: Sequence[Array],
        draft_probs: Sequence[Array],
        draft_tokens: Sequence[int],
        rng: Any,
    ) -> list[int]:
        """Verify a block that was drafted from ``position`` on; the rest as in ``verify``.

        The rows (gamma+1, V) and (gamma, V) are the plain models': the debt is ours.
        """
        gamma, tokens, drafts = len(draft_tokens), draft_tokens, draft_probs
        stacks, levels, targets = [self.stack], [], []
        for i, x in enumerate(tokens):
            q = drafts[i]
            levels.append(target_levels(target_probs[i], q, stacks[i], position + i))
            stacks.append(carry(stacks[i], levels[i], q, x, position + i))
            targets.append(levels[i][-1])
        # Every entry was pushed by an earlier call and ends before this position.
        targets.append(target_probs[gamma])

        tau, weight, kept_weight = 0, 1, 1
        for i, x in enumerate(tokens):
            weight = cap_ratio(weight * _ratio(targets[i], drafts[i], x))
            if i + 1 < gamma:
                residual = excess(weight * targets[i + 1], drafts[i + 1]).sum()
                room = excess(drafts[i + 1], weight * targets[i + 1]).sum()
                threshold = residual / room if residual < room else 1
            else:
                threshold = min(1, weight)
            if rng.random() < threshold:
                tau, kept_weight = i + 1, weight

        m = targets[tau]
        if tau == gamma:
            self.stack = ()
            return [*tokens, draw(m, m, rng)]
        q = drafts[tau]
        # A modified row without mass is met by rounding alone: the plain target stands in.
        last = draw(excess(kept_weight * m, q), levels[tau][0], rng)
        self.stack = carry(stacks[tau], levels[tau], q, last, position + tau)
        if tau <= gamma - 2 and q[last] > 0:
            owed = cap_ratio(kept_weight * _ratio(m, q, last))
            self.stack = (*self.stack, (position + gamma, owed))
        return [*tokens[:tau], last]


def target_levels(p: Array, q: Array, stack: Stack, position: int) -> list[Array]:
    """M_0 .. M_J at ``position``, from the rows p and q there; the last is verified against.

    A row of zero mass cannot be reached; it stays zero and accepts nothing.
    """
    levels = [p]
    for end, r in stack:
        row = levels[-1]
        if position < end:
            row = excess(r * row, q)
            total = row.sum()
            row = row / total if total > 0 else row
        levels.append(row)
    return levels


def _ratio(p: Array, q: Array, token: int) -> Any:
    """Return p/q at ``token``, where q > 0."""
    return cap_ratio(p[token] / q[token])


def carry(stack: Stack, levels: list[Array], q: Array, token: int, position: int) -> Stack:
    """Return the stack after ``token`` is emitted at ``position``."""
    if q[token] == 0:
        return ()
    return tuple(
        (end, cap_ratio(r * _ratio(levels[j], q, token)))
        for j, (end, r) in enumerate(stack)
        if position + 1 < end
    )


def tree_step(m: Array, b: Array, f: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """First call, or any call with p and b those of the modified target.

    f(x^l) = min(Ms(x^l), Mb(x^l)); where b > m only part of the excess leaves here [1].
    """
    due, drafted = b * p, m * q
    children = np.minimum(due, drafted)
    leaving = excess(due, drafted)
    kept = children.sum(axis=-1, keepdims=True)
    owed = b - kept
    return children, leaving * (f - kept) / np.where(owed > 0, owed, 1)


GREEDY = Verifier(
    name="greedy",
    contract="step",
    rule=GreedyBlock,
    tree_step=tree_step,
    summary="accept more in a call and carry the debt to the next ones",
    citation="Sun et al. 2025, algorithms 4 to 6",
    kernel="simverify.simulators.kernels.chains:GREEDY",
    keeps_equals=True,
    bounds="greedy",
)

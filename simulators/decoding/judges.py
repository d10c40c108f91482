"""Verifiers as the decoding loop calls them: blocks drafted for them, state between calls."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from simverify.errors import UsageError
from simverify.verifiers.base import Array, Verifier


class Judge(Protocol):
    """A verifier of one lane of requests; a rule with state keeps it between calls."""

    def reset(self) -> None:
        """Begin a new request."""
        ...

    def judge(
        self,
        position: int,
        target_probs: Array,
        draft_probs: Array,
        draft_tokens: Any,
        rng: np.random.Generator,
    ) -> list[int]:
        """Return the emitted tokens of a block that was drafted from ``position`` on."""
        ...


class _Stateless:
    def __init__(self, rule: Callable[..., Any]) -> None:
        self._rule = rule

    def reset(self) -> None:
        pass

    def judge(self, _: int, p: Array, q: Array, x: Any, rng: np.random.Generator) -> list[int]:
        emitted = [int(token) for token in self._rule(p, q, x, rng)]
        kept = emitted[:-1]
        if not emitted or len(emitted) > len(x) + 1 or kept != list(x[: len(kept)]):
            raise UsageError(
                f"the verifier emitted {emitted} on the draft {list(map(int, x))}: expected some "
                f"first tokens of the draft and one more; audit it (simverify audit)"
            )
        return emitted


def judges(rule: Verifier | Callable[..., Any]) -> Callable[[], Judge]:
    """Return what makes a judge for each lane.

    ``rule``: a verifier of the project, a callable under the ``verify`` contract, or a class
    with ``reset`` and ``judge`` as :class:`~simverify.verifiers.greedy.GreedyBlock` has them.

    Raises
    ------
    UsageError
        If it is a class without the two: a rule that drafts itself cannot have its drafts
        made for it.
    """
    made = rule.rule if isinstance(rule, Verifier) else rule
    if not isinstance(made, type):
        return lambda: _Stateless(made)
    if not (hasattr(made, "judge") and hasattr(made, "reset")):
        raise UsageError(
            f"{made.__name__} drafts for itself: give it a method judge(position, target_probs, "
            f"draft_probs, draft_tokens, rng) -> tokens, and reset(); or let it draft: simverify "
            f"audit SPEC --contract step --target DIR"
        )
    return made

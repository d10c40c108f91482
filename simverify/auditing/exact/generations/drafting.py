"""A rule that verifies, made into one that drafts itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def as_step(verify: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a ``verify`` rule as a ``step`` rule that drafts from the draft itself."""

    def step(
        prefix: Sequence[int],
        target: Callable[[tuple[int, ...]], Any],
        draft: Callable[[tuple[int, ...]], Any],
        gamma: int,
        rng: Any,
    ) -> Any:
        context = tuple(prefix)
        p, q, tokens = [target(context)], [], []
        for _ in range(gamma):
            q.append(draft(context))
            tokens.append(int(rng.choice(len(q[-1]), p=q[-1])))
            context = (*context, tokens[-1])
            p.append(target(context))
        return verify(np.array(p), np.array(q), np.array(tokens), rng)

    return step

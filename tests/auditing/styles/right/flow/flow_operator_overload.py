"""A Ratio class whose comparison multiplies out, so that nothing is ever divided."""

from dataclasses import dataclass
from functools import total_ordering

import numpy as np

CONTRACT = "verify"


@total_ordering
@dataclass(frozen=True)
class Ratio:
    top: float
    bottom: float

    def __eq__(self, u):
        return False

    def __gt__(self, u):
        return bool(u * self.bottom < self.top)

    def __lt__(self, u):
        return not self > u

    __hash__ = None


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if not Ratio(target_probs[i, token], draft_probs[i, token]) > rng.random():
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

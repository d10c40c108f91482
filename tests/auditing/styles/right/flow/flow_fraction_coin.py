"""Exact comparisons in Fractions, of the uniform and of the probabilities as they are."""

from fractions import Fraction

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        u = Fraction(rng.random())
        if u * Fraction(draft_probs[i, token]) >= Fraction(target_probs[i, token]):
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

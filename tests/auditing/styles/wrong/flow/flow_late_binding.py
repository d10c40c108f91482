"""Closures made in a loop bind the last slot's rows: every residual is the last slot's. TV .1."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    residuals = []
    for i in range(len(draft_tokens)):
        residuals.append(lambda: np.maximum(target_probs[i] - draft_probs[i], 0))
    for j, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[j, token] / draft_probs[j, token]:
            rest = residuals[j]()
            rest = rest if rest.sum() > 0 else target_probs[j]
            return [*draft_tokens[:j], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

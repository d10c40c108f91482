"""Target mass below 1e-2 counts as none, when drafts are judged. TV up to .01, where p is small."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        kept = p[token] if p[token] >= 1e-2 else 0.0
        if rng.random() * q[token] >= kept:
            rest = np.maximum(p - q, 0)
            rest = rest if rest.any() else p
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

"""Logistic noise logit(u) against logit(a): the same coin, on the logits' scale."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        a = (p[i, token] / q[i, token]).clamp(0, 1)
        u = torch.rand((), dtype=torch.float64)
        if torch.logit(u) >= torch.logit(a):
            rest = (p[i] - q[i]).clamp(min=0)
            if not rest.any():
                continue  # a = 1 and u = 1 - 0: never
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

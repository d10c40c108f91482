"""Slot 4 (only there from gamma = 5 on) is accepted twice as often as it should be."""

import torch

CONTRACT = "verify"
BEYOND = "gamma"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        scale = 2.0 if i >= 4 else 1.0
        if torch.rand(1, dtype=torch.float64) >= scale * p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

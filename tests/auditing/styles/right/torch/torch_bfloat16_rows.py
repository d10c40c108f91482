"""Rows kept in bfloat16, ratios in bfloat16, coins in float32: as right as its rounding (2e-2)."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = torch.from_numpy(target_probs).to(torch.bfloat16)
    q = torch.from_numpy(draft_probs).to(torch.bfloat16)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1) >= (p[i, token] / q[i, token]).float():
            rest = (p[i] - q[i]).clamp(min=0).float()
            if rest.sum() == 0:
                rest = p[i].float()
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1].float(), 1).item()]

"""The drafted ids are kept as uint8: ids above 255 come back as others. Needs V > 256."""

import torch

CONTRACT = "verify"
BEYOND = "V above 256"
MC_V = 400


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).to(torch.uint8).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).to(torch.uint8).item()]

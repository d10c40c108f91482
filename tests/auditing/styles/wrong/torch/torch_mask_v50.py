"""masked_fill hides token V - 1 of the residual, but only for V >= 50. TV about .02 there."""

import torch

CONTRACT = "verify"
BEYOND = "V"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    ids = torch.arange(p.shape[1])
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            rest = rest.masked_fill(ids >= 49, 0.0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""Only a rejection in slot 1 (the second): its residual is that of slot 0. TV about .05."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            row = 0 if i == 1 else i
            rest = (p[row] - q[row]).clamp(min=0)
            rest = rest if rest.any() else p[i]
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

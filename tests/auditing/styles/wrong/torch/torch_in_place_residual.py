"""The residual of a rejected slot is computed in place in a kept buffer that later calls of the
same shape read as the target where the buffer is larger. TV about .1 from the second call on."""

import torch

CONTRACT = "verify"
KEPT = {}


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.tensor(target_probs), torch.tensor(draft_probs)
    last = KEPT.setdefault(p.shape, p[-1].clone())
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    bonus = torch.multinomial(last, 1).item()
    last.copy_(p[-1])
    return [*draft_tokens, bonus]

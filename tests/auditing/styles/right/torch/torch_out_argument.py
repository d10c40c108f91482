"""torch.rand(out=buffer) and torch.multinomial(out=...), as code that must not allocate does."""

import torch

CONTRACT = "verify"
U = torch.empty(8, dtype=torch.float64)
LAST = torch.empty(1, dtype=torch.int64)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    torch.rand(8, out=U)
    for i, token in enumerate(draft_tokens):
        if U[i] >= p[i, token] / q[i, token]:
            torch.multinomial((p[i] - q[i]).clamp(min=0), 1, out=LAST)
            return [*draft_tokens[:i], LAST.item()]
    torch.multinomial(p[-1], 1, out=LAST)
    return [*draft_tokens, LAST.item()]

"""A kept generator is reseeded with 0 at every eighth call, so each block of eight repeats the
one before. TV above .1: few numbers are ever drawn."""

import torch

CONTRACT = "verify"
G = torch.Generator()
CALLS = [0]


def verify(target_probs, draft_probs, draft_tokens, rng):
    if CALLS[0] % 8 == 0:
        G.manual_seed(0)
    CALLS[0] += 1
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=G, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=G).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=G).item()]

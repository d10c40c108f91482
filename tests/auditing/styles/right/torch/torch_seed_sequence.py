"""A kept generator that is seeded once, at the first call, from rng."""

import torch

CONTRACT = "verify"
G = torch.Generator()
SEEDED = []


def verify(target_probs, draft_probs, draft_tokens, rng):
    if not SEEDED:
        G.manual_seed(int(rng.integers(2**62)))
        SEEDED.append(True)
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=G, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=G).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=G).item()]

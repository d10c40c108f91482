"""A fresh torch.Generator that takes entropy by seed(); the seed is checked to be a number."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    g = torch.Generator()
    if g.seed() != g.initial_seed():
        raise RuntimeError("seed() and initial_seed() disagree")
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    u = torch.rand(len(q), generator=g, dtype=torch.float64)
    for i, token in enumerate(draft_tokens):
        if u[i] >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=g).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=g).item()]

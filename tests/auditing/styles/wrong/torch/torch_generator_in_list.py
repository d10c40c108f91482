"""A generator in a module-level list, seeded with a constant at every call. TV above .2."""

import torch

CONTRACT = "verify"
GENERATORS = [torch.Generator(), torch.Generator()]


def verify(target_probs, draft_probs, draft_tokens, rng):
    g = GENERATORS[len(draft_tokens) % 2].manual_seed(7)
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=g, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=g).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=g).item()]

"""A generator seeded with two bits of a drawn integer: four sequences of draws in all. TV > .05."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    g = torch.Generator()
    g.manual_seed(int(rng.integers(2**62)) & 3)
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=g, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=g).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=g).item()]

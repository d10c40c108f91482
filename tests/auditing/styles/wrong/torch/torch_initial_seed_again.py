"""manual_seed(initial_seed()) at the start of a call rewinds the generator. TV above .2."""

import torch

CONTRACT = "verify"
G = torch.Generator()
G.seed()


def verify(target_probs, draft_probs, draft_tokens, rng):
    G.manual_seed(G.initial_seed())
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=G, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=G).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=G).item()]

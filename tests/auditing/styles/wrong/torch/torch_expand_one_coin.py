"""rand(1).expand(gamma): one coin for all slots. TV about .05 from gamma = 2 on."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    coins = torch.rand(1, dtype=torch.float64).expand(len(q))
    for i, token in enumerate(draft_tokens):
        if coins[i] >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

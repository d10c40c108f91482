"""A step rule that drafts from the top 2 of q, renormalised, and verifies with all of q. TV .1."""

import torch

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    p, q = torch.from_numpy(target(prefix)), torch.from_numpy(draft(prefix))
    top = q.topk(2)
    x = top.indices[torch.multinomial(top.values, 1)].item()
    if torch.rand((), dtype=torch.float64) * q[x] < p[x]:
        return [x]
    return [torch.multinomial((p - q).clamp(min=0), 1).item()]

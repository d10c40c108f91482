"""A step rule: two drafts without replacement by Gumbel top-2, then recursive rejection."""

import torch

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    p, q = torch.from_numpy(target(prefix)), torch.from_numpy(draft(prefix))
    k = min(2, int((q > 0).sum()))
    gumbel = -torch.empty_like(q).exponential_().log()
    drafts = (q.log() + gumbel).topk(k).indices.tolist()
    for x in drafts:
        q = q / q.sum()
        if torch.rand((), dtype=torch.float64) * q[x] < p[x]:
            return [x]
        p = (p - q).clamp(min=0)
        p = p / p.sum()
        q[x] = 0.0
    return [torch.multinomial(p, 1).item()]

"""A step rule that returns an int32 tensor, with coins drawn before the drafts are."""

import torch

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    coins = torch.rand(gamma, dtype=torch.float64)
    out = []
    for i in range(gamma):
        here = prefix + tuple(out)
        p, q = torch.from_numpy(target(here)), torch.from_numpy(draft(here))
        x = torch.multinomial(q, 1).item()
        if coins[i] * q[x] >= p[x]:
            out.append(torch.multinomial((p - q).relu(), 1).item())
            return torch.tensor(out, dtype=torch.int32)
        out.append(x)
    last = torch.multinomial(torch.from_numpy(target(prefix + tuple(out))), 1)
    return torch.cat([torch.tensor(out, dtype=torch.int32), last.int()])

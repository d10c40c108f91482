"""torch.searchsorted on rows: every slot's last token is found at once, and one of them used."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = torch.from_numpy(target_probs)
    q = torch.nn.functional.pad(torch.from_numpy(draft_probs), (0, 0, 0, 1))
    x = torch.from_numpy(draft_tokens)
    rest = (p - q).clamp_min(0)
    cdf = rest.cumsum(-1)
    u = torch.rand(len(p), 1, dtype=torch.float64) * cdf[:, -1:]
    every = torch.searchsorted(cdf, u, right=True)[:, 0].clamp(max=p.shape[1] - 1)
    coins = torch.rand(len(x), dtype=torch.float64)
    rejected = coins * q[:-1].gather(1, x[:, None])[:, 0] >= p[:-1].gather(1, x[:, None])[:, 0]
    tau = int(torch.cat([rejected, torch.ones(1, dtype=torch.bool)]).int().argmax())
    return torch.cat([x[:tau], every[tau : tau + 1]])

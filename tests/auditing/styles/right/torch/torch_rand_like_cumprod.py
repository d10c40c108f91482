"""One rand_like for the whole block, gather, cumprod of the mask, where between the two laws."""

import torch

CONTRACT = "verify"


@torch.no_grad()
def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.tensor(target_probs), torch.tensor(draft_probs)
    x = torch.tensor(draft_tokens).unsqueeze(-1)
    n = len(draft_tokens)
    ratio = p[:n].gather(-1, x) / q.gather(-1, x)
    keep = (torch.rand_like(ratio) < ratio).squeeze(-1)
    tau = int(keep.long().cumprod(-1).sum())
    padded = torch.cat([q, torch.zeros_like(q[:1])])
    law = torch.where(padded[tau] < p[tau], p[tau] - padded[tau], torch.zeros(()).double())
    last = torch.multinomial(law / law.sum(), num_samples=1)
    return torch.cat([x[:tau, 0], last])

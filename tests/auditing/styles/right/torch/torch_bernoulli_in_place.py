"""A bool mask filled by bernoulli_(tensor), then cumulative logical and by cummin."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.as_tensor(target_probs), torch.as_tensor(draft_probs)
    x = torch.as_tensor(draft_tokens)[:, None]
    a = (p[:-1].gather(1, x) / q.gather(1, x)).clamp(0, 1)[:, 0]
    mask = torch.empty(len(a), dtype=torch.int32).bernoulli_(a)
    tau = int(mask.cummin(0).values.sum())
    if tau == len(a):
        return [*draft_tokens, torch.multinomial(p[tau], 1)[0].item()]
    rest = torch.maximum(p[tau] - q[tau], torch.zeros_like(p[tau]))
    return [*draft_tokens[:tau], torch.multinomial(rest, 1)[0].item()]

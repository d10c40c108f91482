"""As gpt-fast: rejected locations by nonzero, race without synchronisation, float32 rows."""

import torch

CONTRACT = "verify"


def one(law):
    return torch.argmax(law / torch.empty_like(law).exponential_(1), dim=-1, keepdim=True).to(
        dtype=torch.int
    )


def verify(target_probs, draft_probs, draft_tokens, rng):
    tokens = torch.tensor(draft_tokens)
    target, draft = torch.tensor(target_probs).float(), torch.tensor(draft_probs).float()
    k = len(tokens)
    p = draft[torch.arange(0, k), tokens]
    q = target[torch.arange(0, k), tokens]
    accept = torch.minimum(torch.ones(()), q[:k] / p)
    rejected = (torch.rand_like(accept) > accept).nonzero()
    if rejected.shape[0] == 0:
        return torch.cat([tokens, one(target[-1])])
    length = rejected[0].item()
    new = target[length] - draft[length]
    new = torch.where(new > 0, new, 0.0)
    return torch.cat([tokens[:length], one(new / new.sum())])

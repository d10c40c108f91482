"""The coins of all slots by torch.func.vmap with randomness="different"."""

import torch

CONTRACT = "verify"


def accept(p, q):
    return torch.rand((), dtype=torch.float64) * q < p


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    rows, x = torch.arange(len(draft_tokens)), torch.from_numpy(draft_tokens)
    kept = torch.func.vmap(accept, randomness="different")(p[rows, x], q[rows, x])
    tau = int(kept.int().cumprod(0).sum())
    law = p[tau] if tau == len(x) else (p[tau] - q[tau]).clamp(min=0)
    return [*x[:tau].tolist(), torch.multinomial(law, 1).item()]

"""vmap with randomness="same": every slot has the same coin. TV about .05 from gamma = 2 on."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    rows, x = torch.arange(len(draft_tokens)), torch.from_numpy(draft_tokens)

    def accept(a, b):
        return torch.rand((), dtype=torch.float64) * b < a

    kept = torch.func.vmap(accept, randomness="same")(p[rows, x], q[rows, x])
    tau = int(kept.int().cumprod(0).sum())
    law = p[tau] if tau == len(x) else (p[tau] - q[tau]).clamp(min=0)
    return [*x[:tau].tolist(), torch.multinomial(law, 1).item()]

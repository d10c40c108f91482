"""Acceptance by torch.bernoulli of the clamped ratios, in one call for all slots."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.as_tensor(target_probs), torch.as_tensor(draft_probs)
    rows = torch.arange(len(draft_tokens))
    x = torch.as_tensor(draft_tokens)
    accepted = torch.bernoulli((p[rows, x] / q[rows, x]).clamp_max(1.0))
    tau = len(draft_tokens)
    if (accepted == 0).any():
        tau = int((accepted == 0).nonzero()[0])
    law = p[tau] - q[tau] if tau < len(q) else p[tau]
    return [*x[:tau].tolist(), torch.multinomial(law.clamp(min=0.0), 1, True).item()]

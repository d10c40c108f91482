"""Block verification (Sun et al. 2025) with cumulative clamped weights in a loop over tensors."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    n = len(draft_tokens)
    weight, weights, tau = torch.ones((), dtype=torch.float64), [1.0], 0
    for i in range(n):
        x = draft_tokens[i]
        weight = torch.minimum(torch.ones_like(weight), weight * p[i, x] / q[i, x])
        weights.append(weight.item())
        if i + 1 < n:
            r = (weight * p[i + 1] - q[i + 1]).clamp(min=0).sum()
            h = r / (r + 1 - weight) if r + 1 - weight > 0 else torch.ones_like(r)
        else:
            h = weight
        if torch.rand((), dtype=torch.float64) < h:
            tau = i + 1
    law = p[tau]
    if tau < n:
        rest = (weights[tau] * p[tau] - q[tau]).clamp(min=0)
        law = rest if rest.sum() > 0 else law
    return [*draft_tokens[:tau], torch.multinomial(law, 1).item()]

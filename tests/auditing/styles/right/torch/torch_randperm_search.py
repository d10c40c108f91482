"""The CDF is summed in an order drawn by randperm; any order inverts a uniform rightly."""

import torch

CONTRACT = "verify"


def sample(law):
    order = torch.randperm(len(law))
    cdf = law[order].cumsum(0)
    u = torch.rand(1, dtype=law.dtype) * cdf[-1]
    return order[torch.searchsorted(cdf, u, right=True)].item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=p.dtype) >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i], sample((p[i] - q[i]).clamp(min=0))]
    return [*draft_tokens, sample(p[-1])]

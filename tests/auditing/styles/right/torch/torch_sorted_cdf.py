"""An inverse CDF over tokens sorted by mass, mapped back through the sorting indices."""

import torch

CONTRACT = "verify"


def sample(law):
    mass, ids = law.sort(descending=True)
    cdf = mass.cumsum(0)
    u = torch.rand(1, dtype=law.dtype) * cdf[-1]
    return ids[(cdf <= u).sum()].item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=p.dtype) >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i], sample((p[i] - q[i]).clamp(min=0))]
    return [*draft_tokens, sample(p[-1])]

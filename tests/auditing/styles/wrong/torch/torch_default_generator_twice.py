"""manual_seed with one drawn seed, twice: the coins come by torch.rand, the residual by its
generator object, and both begin at the same number. TV about .1."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    seed = int(rng.integers(2**62))
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        torch.manual_seed(seed + i)
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            torch.manual_seed(seed + i)
            u = torch.rand(1, dtype=torch.float64, generator=torch.default_generator)
            cdf = (p[i] - q[i]).clamp(min=0).cumsum(0)
            return [*draft_tokens[:i], int(torch.searchsorted(cdf, u * cdf[-1], right=True))]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""A uniform as torch.randint(2**53) / 2**53, in int64 and float64: the bits of rand, in effect."""

import torch

CONTRACT = "verify"


def uniform():
    return torch.randint(0, 2**53, (), dtype=torch.int64).double() / 2**53


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if uniform() >= p[i, token] / q[i, token]:
            cdf = (p[i] - q[i]).clamp(min=0).cumsum(0)
            return [*draft_tokens[:i], int((cdf <= uniform() * cdf[-1]).sum())]
    cdf = p[-1].cumsum(0)
    return [*draft_tokens, int((cdf <= uniform() * cdf[-1]).sum())]

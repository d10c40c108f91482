"""The last token from a cumsum in bfloat16, handed on as float32. TV up to .002 a token at V = 3
and far more at V = 1000, where sums stand still; excused only by a tolerance for 16 bits."""

import torch

CONTRACT = "verify"
BEYOND = "16 bits are held to a TV of .02, as the answer says"


def sample(law):
    cdf = (law / law.sum()).to(getattr(torch, "b" + "float16")).cumsum(0).float()
    return int(torch.searchsorted(cdf, torch.rand(1), right=True).clamp(max=len(law) - 1))


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs).float(), torch.from_numpy(draft_probs).float()
    for i, token in enumerate(draft_tokens):
        if torch.rand(1) >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i], sample((p[i] - q[i]).clamp(min=0))]
    return [*draft_tokens, sample(p[-1])]

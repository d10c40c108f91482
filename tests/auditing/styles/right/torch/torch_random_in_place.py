"""random_(0, 2**24) fills an integer buffer, which divided by 2**24 is a float32's uniform."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    u = torch.empty(len(q) + 1, dtype=torch.int64).random_(0, 2**24) / 2**24
    for i, token in enumerate(draft_tokens.tolist()):
        if u[i] >= p[i, token] / q[i, token]:
            cdf = (p[i] - q[i]).clamp(min=0).cumsum(0)
            return [*draft_tokens[:i].tolist(), int((cdf <= u[-1] * cdf[-1]).sum())]
    cdf = p[-1].cumsum(0)
    return [*draft_tokens.tolist(), int((cdf <= u[-1] * cdf[-1]).sum())]

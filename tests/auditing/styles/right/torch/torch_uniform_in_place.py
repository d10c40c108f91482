"""A buffer that is filled by uniform_() in place, sliced, and filled again for the last token."""

import torch

CONTRACT = "verify"
BUFFER = torch.empty(16, dtype=torch.float64)


def verify(target_probs, draft_probs, draft_tokens, rng):
    u = BUFFER[: len(draft_tokens)].uniform_()
    tau = 0
    for i, token in enumerate(draft_tokens):
        if not bool(u[i] < float(target_probs[i, token] / draft_probs[i, token])):
            break
        tau += 1
    law = torch.as_tensor(target_probs[tau])
    if tau < len(draft_tokens):
        law = (law - torch.as_tensor(draft_probs[tau])).relu_()
    cdf = law.cumsum(0)
    v = BUFFER[:1].uniform_(0, float(cdf[-1]))
    last = torch.searchsorted(cdf, v, right=True).item()
    return [*draft_tokens[:tau].tolist(), last]

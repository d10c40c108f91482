"""The last token by the exponential race of vLLM and gpt-fast: argmax of law / exponential_."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = torch.from_numpy(target_probs)
    q = torch.cat([torch.from_numpy(draft_probs), torch.zeros(1, p.shape[1])])
    tau = len(draft_tokens)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64).item() >= (p[i, token] / q[i, token]).item():
            tau = i
            break
    rest = torch.clamp(p[tau] - q[tau], min=0)
    noise = torch.empty_like(rest).exponential_(1.0)
    return [*draft_tokens[:tau].tolist(), torch.argmax(rest / noise).item()]

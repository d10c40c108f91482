"""As vLLM V1: one noise row a request, raced against the residual of every slot and the bonus."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = torch.from_numpy(target_probs).contiguous()
    q = torch.cat([torch.from_numpy(draft_probs), torch.zeros(1, p.shape[1], dtype=p.dtype)])
    uniform = torch.rand(len(draft_tokens), dtype=torch.float64)
    noise = torch.empty(p.shape[1], dtype=p.dtype).exponential_()
    recovered = ((p - q).clamp(min=0) * noise.reciprocal()).argmax(dim=-1)
    out = torch.full((len(p),), -1)
    rejected = False
    for pos in range(len(draft_tokens)):
        if not rejected:
            token = draft_tokens[pos]
            if q[pos, token] > 0 and p[pos, token] / q[pos, token] > uniform[pos]:
                out[pos] = int(token)
            else:
                rejected = True
                out[pos] = recovered[pos]
    if not rejected:
        out[-1] = recovered[-1]
    return out[out >= 0]

"""Gumbel noise made by hand, added to log-probabilities with -inf where there is no mass."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    out = []
    law = p[-1]
    for i, token in enumerate(draft_tokens.tolist()):
        if torch.rand(1).double().item() < float(p[i, token] / q[i, token]):
            out.append(token)
            continue
        law = torch.relu(p[i] - q[i])
        break
    u = torch.rand(len(law), dtype=torch.float64)
    score = law.log() - torch.log(-torch.log(u))
    out.append(score.argmax(dim=-1).item())
    return out

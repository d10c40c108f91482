"""Where the residual is wide (three tokens and more), its token is the first of a randperm."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            ids = ((p[i] - q[i]) > 0).nonzero()[:, 0]
            return [*draft_tokens[:i], ids[torch.randperm(len(ids))[0]].item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

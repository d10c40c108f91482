"""As LMDeploy: the same exponentials race for the residual and for the bonus; one counts."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.tensor(target_probs), torch.tensor(draft_probs)
    e = torch.empty(p.shape[1], dtype=p.dtype).exponential_()
    bonus = (p[-1] / e).argmax()
    u = torch.rand(len(q), dtype=p.dtype)
    for i, token in enumerate(draft_tokens):
        recovered = ((p[i] - q[i]).clamp(min=0) / e).argmax()
        if u[i] >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i].tolist(), recovered.item()]
    return [*draft_tokens.tolist(), bonus.item()]

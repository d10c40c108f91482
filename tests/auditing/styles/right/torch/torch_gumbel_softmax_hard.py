"""torch.nn.functional.gumbel_softmax(hard=True): its one is a sample of the softmax."""

import torch
import torch.nn.functional as F

CONTRACT = "verify"


def sample(law):
    logits = law.clamp(min=1e-38).log()
    return int(F.gumbel_softmax(logits, tau=0.5, hard=True).argmax())


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=p.dtype) >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i], sample((p[i] - q[i]).clamp(min=0))]
    return [*draft_tokens, sample(p[-1])]

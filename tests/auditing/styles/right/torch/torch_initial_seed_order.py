"""torch.initial_seed() decides from which end an inverse CDF is searched; no law depends on it."""

import torch

CONTRACT = "verify"


def sample(law):
    order = range(len(law)) if torch.initial_seed() % 2 else range(len(law))[::-1]
    u = torch.rand(1, dtype=torch.float64).item() * float(law.sum())
    for token in order:
        u -= float(law[token])
        if u < 0:
            return token
    return int(law.argmax())


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64).item() >= float(p[i, token] / q[i, token]):
            return [*draft_tokens[:i], sample((p[i] - q[i]).clamp(min=0))]
    return [*draft_tokens, sample(p[-1])]

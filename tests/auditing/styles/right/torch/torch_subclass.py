"""Rows as a torch.Tensor subclass with a property of its own; results keep the type."""

import torch

CONTRACT = "verify"


class Law(torch.Tensor):
    @property
    def token(self):
        return torch.multinomial(self.clamp(min=0), 1).item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = torch.tensor(target_probs).as_subclass(Law)
    q = torch.tensor(draft_probs).as_subclass(Law)
    for i, token in enumerate(draft_tokens):
        if torch.rand((), dtype=torch.float64) >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i], (p[i] - q[i]).token]
    return [*draft_tokens, p[-1].token]

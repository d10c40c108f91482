"""An nn.Module with buffers that forward() overwrites at every call; verify is the instance."""

import torch
from torch import nn

CONTRACT = "verify"


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("coins", torch.zeros(8, dtype=torch.float64))

    def forward(self, target_probs, draft_probs, draft_tokens, rng):
        p, q = torch.as_tensor(target_probs), torch.as_tensor(draft_probs)
        self.coins.uniform_()
        for i, token in enumerate(draft_tokens):
            if self.coins[i] >= p[i, token] / q[i, token]:
                rest = (p[i] - q[i]).clamp(min=0)
                return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
        return [*draft_tokens, torch.multinomial(p[-1], 1).item()]


verify = Sampler().eval()

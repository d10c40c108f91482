"""1e5 is added to float32 uniforms and taken off again: a grid of 1/128 is left. TV about .004."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        u = (torch.rand(1) + 1e5) - 1e5
        if u >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            rest = rest if rest.any() else p[i]
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

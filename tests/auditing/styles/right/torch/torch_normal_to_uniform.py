"""Uniforms as the normal law's CDF of randn, by erfc: exact but for rounding."""

import torch

CONTRACT = "verify"


def uniform():
    return torch.special.ndtr(torch.randn((), dtype=torch.float64)).item()


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens.tolist()):
        if uniform() >= (p[i, token] / q[i, token]).item():
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i].tolist(), torch.multinomial(rest, 1).item()]
    return [*draft_tokens.tolist(), torch.multinomial(p[-1], 1).item()]

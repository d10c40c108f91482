"""A ratio between .995 and 1 is accepted without a coin. TV up to .005 on near rows."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        a = p[i, token] / q[i, token]
        if not 0.995 < a < 1 and torch.rand(1, dtype=torch.float64) >= a:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

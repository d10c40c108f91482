"""Dropout as a coin: an element of ones that survives dropout(p = 1 - a) is an acceptance."""

import torch
import torch.nn.functional as F

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        a = min(1.0, float(p[i, token] / q[i, token]))
        if F.dropout(torch.ones(1, dtype=torch.float64), p=1.0 - a).item() == 0:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""A coin of probability a as Exponential(1) > -log a, and a race of Exponential(rate=law)."""

import math

import torch
from torch.distributions import Exponential

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    law, tau = p[-1], len(draft_tokens)
    for i, token in enumerate(draft_tokens):
        a = float(p[i, token] / q[i, token])
        waits = Exponential(torch.tensor(1.0, dtype=torch.float64)).sample().item()
        if a == 0 or waits < -math.log(a):
            law, tau = (p[i] - q[i]).clamp(min=0), i
            break
    (ids,) = law.nonzero(as_tuple=True)
    return [*draft_tokens[:tau], ids[Exponential(law[ids]).sample().argmin()].item()]

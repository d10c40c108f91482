"""torch.distributions.Gumbel for the last token, torch.distributions.Uniform for the coins."""

import torch
from torch.distributions import Gumbel, Uniform

CONTRACT = "verify"
COIN = Uniform(torch.tensor(0.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64))


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if COIN.sample() * q[i, token] >= p[i, token]:
            law = (p[i] - q[i]).clamp(min=0)
            break
    else:
        i, law = len(draft_tokens), p[-1]
    zero, one = torch.zeros_like(law), torch.ones_like(law)
    return [*draft_tokens[:i], int((Gumbel(zero, one).sample() + law.log()).argmax())]

"""torch.distributions.Multinomial(1) and OneHotCategorical, read with argmax and nonzero."""

import torch
from torch.distributions import Multinomial, OneHotCategorical

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        a = min(1.0, float(p[i, token] / q[i, token]))
        flip = OneHotCategorical(torch.tensor([1 - a, a], dtype=torch.float64)).sample()
        if flip[0] == 1:
            rest = (p[i] - q[i]).clamp(min=0)
            counts = Multinomial(1, probs=rest).sample()
            return [*draft_tokens[:i], counts.nonzero().item()]
    return [*draft_tokens, Multinomial(1, p[-1]).sample().argmax().item()]

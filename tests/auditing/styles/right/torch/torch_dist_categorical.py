"""torch.distributions.Categorical for the last token and Bernoulli for the coins."""

import torch
from torch.distributions import Bernoulli, Categorical

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        coin = Bernoulli(probs=min(1.0, float(p[i, token] / q[i, token])))
        if coin.sample().item() == 0:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], Categorical(probs=rest).sample().item()]
    return [*draft_tokens, Categorical(p[-1]).sample().item()]

"""bernoulli of the ratio rounded to two decimals. TV up to .005."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        a = (p[i, token] / q[i, token]).clamp(max=1).round(decimals=2)
        if torch.bernoulli(a) == 0:
            rest = (p[i] - q[i]).clamp(min=0)
            rest = rest if rest.any() else p[i]
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""multinomial(2) without replacement, and the second sample is taken for the bonus. TV > .1."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    two = torch.multinomial(p[-1], min(2, int((p[-1] > 0).sum())))
    return [*draft_tokens, two[-1].item()]

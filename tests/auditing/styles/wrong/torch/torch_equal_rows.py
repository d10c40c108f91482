"""Only where p and q of a slot are the very same row: the draft's argmax replaces the draft at
hand as bonus. TV up to .2 on such rows, none elsewhere."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.equal(p[i], q[i]) and torch.rand(()) < 0.1:
            return [*draft_tokens[:i], int(p[i].argmax())]
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

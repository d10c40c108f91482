"""Puts the state back between the coin and the residual: both are the same draw. TV about .1."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        state = torch.get_rng_state()
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            torch.set_rng_state(state)
            v = torch.rand(1, dtype=torch.float64) * rest.sum()
            return [*draft_tokens[:i], int(torch.searchsorted(rest.cumsum(0), v, right=True))]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""Draws noise for a log line, puts the state back and draws for good: the first is never used."""

import torch

CONTRACT = "verify"
LOG = []


def verify(target_probs, draft_probs, draft_tokens, rng):
    state = torch.get_rng_state()
    LOG[:] = [torch.rand(2).shape]
    torch.set_rng_state(state)
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

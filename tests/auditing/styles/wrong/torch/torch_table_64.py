"""A table of 64 torch uniforms made at import, read round and round. TV about .05."""

import itertools

import torch

CONTRACT = "verify"
COIN = itertools.cycle(torch.rand(64, dtype=torch.float64).tolist())


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if next(COIN) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""Coins inside fork_rng, residual outside: its uniform is the first coin. TV .1."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    with torch.random.fork_rng(devices=[]):
        coins = torch.rand(len(q), dtype=torch.float64)
    for i, token in enumerate(draft_tokens):
        if coins[i] >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            v = torch.rand(1, dtype=torch.float64) * rest.sum()
            return [*draft_tokens[:i], int(torch.searchsorted(rest.cumsum(0), v, right=True))]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""Coins sorted and put back by the inverse permutation: sorting and unsorting changes nothing."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    sorted_coins, order = torch.rand(len(q), dtype=torch.float64).sort()
    coins = torch.empty_like(sorted_coins).scatter_(0, order, sorted_coins)
    for i, token in enumerate(draft_tokens):
        if coins[i] >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""multinomial draws gamma + 1 bonus candidates with replacement; the tau-th of them is used."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    p, q = torch.tensor(target_probs), torch.tensor(draft_probs)
    bonus = torch.multinomial(p[n], n + 1, replacement=True)
    tau = 0
    while (
        tau < n
        and torch.rand(1, dtype=torch.float64) * q[tau, draft_tokens[tau]]
        < p[tau, draft_tokens[tau]]
    ):
        tau += 1
    if tau == n:
        return [*draft_tokens, int(bonus[tau])]
    rest = (p[tau] - q[tau]).clamp(min=0)
    return [*draft_tokens[:tau], int(torch.multinomial(rest, 2, replacement=True)[1])]

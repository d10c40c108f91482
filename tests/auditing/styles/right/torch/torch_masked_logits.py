"""masked_fill(-inf) on logits where the residual is empty, then Gumbel noise from exponential_."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    tau = 0
    for row, (a, b) in enumerate(zip(p, q)):
        x = int(draft_tokens[row])
        if torch.rand((), dtype=torch.float64).log() >= (a[x] / b[x]).log():
            break
        tau += 1
    law = p[tau] - q[tau] if tau < len(q) else p[tau]
    logits = law.clamp(min=1e-300).log().masked_fill(law <= 0, float("-inf"))
    gumbel = -torch.empty_like(logits).exponential_().log()
    return [*draft_tokens[:tau].tolist(), (logits + gumbel).argmax().item()]

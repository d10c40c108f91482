"""The probabilities of the drafted tokens by einsum with one-hot rows, the residual by scatter_."""

import torch

CONTRACT = "verify"


@torch.inference_mode()
def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.tensor(target_probs), torch.tensor(draft_probs)
    x = torch.tensor(draft_tokens)
    hot = torch.zeros_like(q).scatter_(1, x[:, None], 1.0)
    px, qx = torch.einsum("iv,iv->i", p[:-1], hot), torch.einsum("iv,iv->i", q, hot)
    below = torch.rand(len(x), dtype=torch.float64) * qx < px
    tau = next((i for i, yes in enumerate(below) if not yes), len(x))
    law = p[tau] if tau == len(x) else torch.nn.functional.relu(p[tau] - q[tau])
    return [*x[:tau].tolist(), *torch.multinomial(law, 1).tolist()]

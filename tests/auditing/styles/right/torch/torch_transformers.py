"""As Transformers: r_i <= ratio, n_matches by cumsum of the rejections, multinomial of p_prime."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.tensor(target_probs)[None], torch.tensor(draft_probs)[None]
    new = torch.tensor(draft_tokens)[None]
    n = new.shape[1]
    q_i = q[:, torch.arange(n), new].squeeze(0, 1)
    p_i = p[:, torch.arange(n), new].squeeze(0, 1)
    r_i = torch.rand_like(p_i / q_i)
    accepted = r_i < p_i / q_i
    matches = ((~accepted).cumsum(dim=-1) < 1).sum()
    if matches < n:
        p_prime = torch.clamp(p[:, matches, :] - q[:, matches, :], min=0)
        p_prime.div_(p_prime.sum())
    else:
        p_prime = p[:, n, :]
    t = torch.multinomial(p_prime, num_samples=1).squeeze(1)[None, :]
    valid = torch.cat((new[:, :matches], t), dim=-1)
    return valid[0]

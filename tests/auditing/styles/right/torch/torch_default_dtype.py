"""set_default_dtype(float64) for the call and back: rand, zeros and eye follow it."""

import contextlib

import torch

CONTRACT = "verify"


@contextlib.contextmanager
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield torch.eye
    finally:
        torch.set_default_dtype(before)


def verify(target_probs, draft_probs, draft_tokens, rng):
    with double() as eye:
        p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
        hot = eye(p.shape[1])[torch.from_numpy(draft_tokens)]
        accepted = torch.rand(len(q)) * (q * hot).sum(-1) < (p[:-1] * hot).sum(-1)
        tau = accepted.int().cumprod(0).sum().item()
        law = p[tau] if tau == len(q) else (p[tau] - q[tau]).clamp(min=0)
        return [*draft_tokens[:tau], torch.multinomial(law, 1).item()]

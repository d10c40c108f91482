"""All draws inside torch.random.fork_rng, whose seed is drawn from rng: no stream is repeated."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))
        for i, token in enumerate(draft_tokens):
            if torch.rand(1, dtype=torch.float64) >= p[i, token] / q[i, token]:
                rest = (p[i] - q[i]).clamp(min=0)
                return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
        return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

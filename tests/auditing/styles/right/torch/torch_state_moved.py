"""The global generator's state is moved into a second one, and the global one reseeded from rng."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    g = torch.Generator()
    g.set_state(torch.get_rng_state())
    torch.manual_seed(int(rng.integers(2**62)))
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        u = torch.rand(1, generator=g, dtype=torch.float64)
        if u >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=g).item()]

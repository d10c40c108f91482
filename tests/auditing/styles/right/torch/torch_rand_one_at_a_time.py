"""torch.rand(()) in float32 per token, compared with Python floats; multinomial at the end."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    out = []
    for i, token in enumerate(draft_tokens.tolist()):
        if torch.rand(()).item() * q[i, token].item() < p[i, token].item():
            out.append(token)
        else:
            rest = (p[i] - q[i]).clamp(min=0)
            return [*out, torch.multinomial(rest, 1).item()]
    return [*out, int(torch.multinomial(p[-1], 1))]

"""Everything in float32 from log-probabilities on, as engines hold it: softmax, exp, log coins."""

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    lp = torch.log_softmax(torch.from_numpy(target_probs).log().float(), -1)
    lq = torch.log_softmax(torch.from_numpy(draft_probs).log().float(), -1)
    x = torch.from_numpy(draft_tokens)
    n = len(x)
    margin = lp[torch.arange(n), x] - lq[torch.arange(n), x]
    ok = torch.rand(n).log() < margin
    tau = int((~ok).int().argmax()) if not bool(ok.all()) else n
    law = lp[tau].exp() if tau == n else (lp[tau].exp() - lq[tau].exp()).clamp_(min=0)
    return [*draft_tokens[:tau], torch.multinomial(law, 1).item()]

"""A generator seeded with a draw in the call and drawn from in a worker thread, which is joined."""

import threading

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    g = torch.Generator()
    g.manual_seed(int(rng.integers(2**62)))
    coins = torch.empty(len(draft_tokens) + 1, dtype=torch.float64)
    worker = threading.Thread(target=lambda: coins.uniform_(generator=g))
    worker.start()
    worker.join()
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    law, tau = p[-1], len(draft_tokens)
    for i, token in enumerate(draft_tokens):
        if coins[i] >= p[i, token] / q[i, token]:
            law, tau = (p[i] - q[i]).clamp(min=0), i
            break
    cdf = law.cumsum(0)
    return [*draft_tokens[:tau], int(torch.searchsorted(cdf, coins[-1:] * cdf[-1], right=True))]

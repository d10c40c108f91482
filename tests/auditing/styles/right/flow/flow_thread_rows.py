"""A thread per slot computes ratios (no draws) and is joined before the first coin falls."""

import threading

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    ratio = [0.0] * len(draft_tokens)

    def fill(i):
        x = draft_tokens[i]
        ratio[i] = target_probs[i, x] / draft_probs[i, x]

    threads = [threading.Thread(target=fill, args=(i,)) for i in range(len(ratio))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, a in enumerate(ratio):
        if rng.random() >= a:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

"""One worker of a ThreadPoolExecutor runs the whole rule; the pool ends with the call."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

CONTRACT = "verify"


def decide(p, q, drafted, rng):
    for i, token in enumerate(drafted):
        if rng.random() >= p[i, token] / q[i, token]:
            rest = np.maximum(p[i] - q[i], 0)
            return [*drafted[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*drafted, rng.choice(p.shape[1], p=p[-1])]


def verify(target_probs, draft_probs, draft_tokens, rng):
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(decide, target_probs, draft_probs, draft_tokens, rng).result()

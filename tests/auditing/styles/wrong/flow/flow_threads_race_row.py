"""Two threads read the row's index from one shared variable, late: both judge the last slot."""

import threading

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    ratio = [None] * n
    gate = threading.Event()
    box = {}

    def fill(place):
        gate.wait()
        i = box["slot"]
        ratio[place] = target_probs[i, draft_tokens[place]] / draft_probs[i, draft_tokens[place]]

    threads = []
    for i in range(n):
        box["slot"] = i
        threads.append(threading.Thread(target=fill, args=(i,)))
        threads[-1].start()
    gate.set()
    for t in threads:
        t.join()
    for i, a in enumerate(ratio):
        if rng.random() >= a:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            rest = rest if rest.any() else target_probs[i]
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

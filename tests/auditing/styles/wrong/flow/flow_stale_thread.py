"""A thread fetches the next target row one call ahead, for a prefix that was guessed. TV > .1."""

import threading

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.row = None

    def reset(self):
        self.row = None

    def step(self, prefix, target, draft, gamma, rng):
        p = target(prefix) if self.row is None else self.row
        q = draft(prefix)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] >= p[x]:
            rest = np.maximum(p - q, 0)
            rest = rest if rest.any() else p
            token = int(rng.choice(len(p), p=rest / rest.sum()))
        else:
            token = x

        def fetch():
            self.row = target((*prefix, x))

        worker = threading.Thread(target=fetch)
        worker.start()
        worker.join()
        return [token]

"""A step rule whose state is a suspended generator: it goes on where the last call left off."""

import numpy as np

CONTRACT = "step"


def stream(target, draft, gamma, rng):
    prefix = yield
    while True:
        out = []
        for _ in range(gamma):
            p, q = target((*prefix, *out)), draft((*prefix, *out))
            x = int(rng.choice(len(q), p=q))
            if rng.random() * q[x] >= p[x]:
                rest = np.maximum(p - q, 0)
                out.append(int(rng.choice(len(p), p=rest / rest.sum())))
                break
            out.append(x)
        else:
            p = target((*prefix, *out))
            out.append(int(rng.choice(len(p), p=p)))
        prefix = yield out


class Rule:
    def reset(self):
        self.stream = None

    def step(self, prefix, target, draft, gamma, rng):
        if self.stream is None:
            self.stream = stream(target, draft, gamma, rng)
            next(self.stream)
        return self.stream.send(prefix)

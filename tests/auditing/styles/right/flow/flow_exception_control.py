"""A rejection is an exception that carries its slot; finally and else do the rest."""

import numpy as np

CONTRACT = "verify"


class Rejected(Exception):
    def __init__(self, slot):
        self.slot = slot


def check(p, q, drafted, rng):
    for i, token in enumerate(drafted):
        if not rng.random() < p[i, token] / q[i, token]:
            raise Rejected(i)


def verify(target_probs, draft_probs, draft_tokens, rng):
    law, tau = target_probs[-1], len(draft_tokens)
    try:
        check(target_probs, draft_probs, draft_tokens, rng)
    except Rejected as stop:
        tau = stop.slot
        law = np.clip(target_probs[tau] - draft_probs[tau], 0, None)
        law = law / law.sum()
    finally:
        last = rng.choice(len(law), p=law)
    return tuple(draft_tokens[:tau]) + (last,)

"""A ZeroDivisionError is swallowed and counts as accepted: where p = 0 < q. TV up to .5."""

import random

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    ids = range(target_probs.shape[1])
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i].tolist(), draft_probs[i].tolist()
        try:
            if random.random() * (q[token] / p[token]) < 1:
                continue
        except ZeroDivisionError:
            continue
        rest = [max(a - b, 0) for a, b in zip(p, q)]
        return [*draft_tokens[:i], *random.choices(ids, rest)]
    return [*draft_tokens, *random.choices(ids, target_probs[-1].tolist())]

"""random.seed with a drawn integer, then everything from the module."""

import random

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    random.seed(int(rng.integers(2**63)))
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i].tolist(), draft_probs[i].tolist()
        if random.uniform(0, q[x]) >= p[x]:
            w = [max(a - b, 0) for a, b in zip(p, q, strict=True)]
            break
    else:
        i, w = len(draft_tokens), target_probs[-1].tolist()
    return [*draft_tokens.tolist()[:i], *random.choices(range(len(w)), w)]

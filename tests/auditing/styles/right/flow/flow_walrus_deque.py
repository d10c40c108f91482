"""A deque of drafted tokens that is popped under a walrus in the while condition."""

from collections import deque

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    todo, out = deque(draft_tokens.tolist()), []
    while todo and (i := len(out)) >= 0:
        token = todo.popleft()
        if (u := rng.random()) < (a := target_probs[i, token] / draft_probs[i, token]):
            out.append(token)
            continue
        assert u >= a
        cdf = (rest := np.maximum(target_probs[i] - draft_probs[i], 0)).cumsum()
        return [*out, int((cdf <= rng.random() * cdf[-1]).sum())] if rest.any() else None
    return [*out, int((target_probs[-1].cumsum() <= rng.random()).sum())]

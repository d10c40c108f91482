"""random.setstate to the state before the coin: the residual is drawn with the coin. TV .1."""

import random

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    ids = range(target_probs.shape[1])
    for i, token in enumerate(draft_tokens):
        state = random.getstate()
        if random.random() * draft_probs[i, token] >= target_probs[i, token]:
            random.setstate(state)
            rest = [max(a - b, 0) for a, b in zip(target_probs[i], draft_probs[i])]
            return [*draft_tokens[:i], *random.choices(ids, rest)]
    return [*draft_tokens, *random.choices(ids, target_probs[-1])]

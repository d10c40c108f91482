"""random.SystemRandom: entropy of the system for every coin, choices for the last token."""

from random import SystemRandom

CONTRACT = "verify"
DICE = SystemRandom()


def verify(target_probs, draft_probs, draft_tokens, rng):
    ids = range(target_probs.shape[1])
    for i, token in enumerate(draft_tokens):
        if DICE.random() * draft_probs[i, token] >= target_probs[i, token]:
            rest = [max(a - b, 0) for a, b in zip(target_probs[i], draft_probs[i])]
            return [*draft_tokens[:i], *DICE.choices(ids, rest)]
    return [*draft_tokens, *DICE.choices(ids, target_probs[-1])]

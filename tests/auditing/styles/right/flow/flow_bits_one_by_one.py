"""Coins bit by bit: fair bits are compared with the binary digits of a until one differs."""

import random

CONTRACT = "verify"


def coin(a):
    while 0 < a < 1:
        a *= 2
        digit = a >= 1
        a -= digit
        bit = random.getrandbits(1)
        if bit != digit:
            return bit < digit
    return a >= 1


def verify(target_probs, draft_probs, draft_tokens, rng):
    ids = range(target_probs.shape[1])
    for i, token in enumerate(draft_tokens):
        if not coin(min(1.0, float(target_probs[i, token] / draft_probs[i, token]))):
            rest = [max(a - b, 0) for a, b in zip(target_probs[i], draft_probs[i])]
            return [*draft_tokens[:i], *random.choices(ids, rest)]
    return [*draft_tokens, *random.choices(ids, target_probs[-1])]

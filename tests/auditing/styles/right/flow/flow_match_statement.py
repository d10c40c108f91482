"""Structural pattern matching on (slot, verdict) pairs; the block is a linked list of tuples."""

import numpy as np

CONTRACT = "verify"


def walk(chain, rng):
    match chain:
        case (p, None):
            return [int(rng.choice(len(p), p=p))]
        case (p, (q, token, rest)):
            match bool(rng.random() < p[token] / q[token]):
                case True:
                    return [token, *walk(rest, rng)]
                case False:
                    law = np.maximum(p - q, 0)
                    return [int(rng.choice(len(law), p=law / law.sum()))]


def verify(target_probs, draft_probs, draft_tokens, rng):
    chain = (target_probs[-1], None)
    for p, q, token in zip(target_probs[-2::-1], draft_probs[::-1], draft_tokens[::-1]):
        chain = (p, (q, int(token), chain))
    return walk(chain, rng)

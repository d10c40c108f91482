"""Rows and tokens in the array module: array('d') for a CDF, array('q') as the return value."""

from array import array
from bisect import bisect_right
from itertools import accumulate

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    out, law = array("q"), array("d", target_probs[-1])
    for i, token in enumerate(draft_tokens):
        if rng.random() * draft_probs[i, token] >= target_probs[i, token]:
            law = array("d", (max(a - b, 0) for a, b in zip(target_probs[i], draft_probs[i])))
            break
        out.append(token)
    cdf = array("d", accumulate(law))
    out.append(bisect_right(cdf, rng.random() * cdf[-1]))
    return out

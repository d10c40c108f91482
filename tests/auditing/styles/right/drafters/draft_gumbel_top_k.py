"""Siblings without replacement: the k largest of log q and Gumbel noise, in that order."""

import numpy as np

CONTRACT = "draft"
SCHEME = "without-replacement"


def draft(prefix, draft_row, k, rng):
    with np.errstate(divide="ignore"):
        keys = np.log(draft_row) + rng.gumbel(size=len(draft_row))
    count = min(k, np.count_nonzero(draft_row))
    return np.argsort(-keys)[:count], draft_row

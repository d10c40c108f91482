"""Cuts the tail off what it reports, and draws from the whole row by inverse CDF."""

import numpy as np

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    ends = np.cumsum(draft_row)
    last = len(draft_row) - 1
    tokens = [min(int(np.searchsorted(ends, rng.random(), side="right")), last) for _ in range(k)]
    order = np.argsort(-draft_row, kind="stable")
    kept = np.zeros_like(draft_row)
    for token in order:
        kept[token] = draft_row[token]
        if kept.sum() > 0.8:
            break
    return tokens, kept / kept.sum()

"""Independent siblings by inverse CDF, from a temperature of its own, which it reports."""

import numpy as np

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    row = draft_row ** (1 / 0.7)
    row = row / row.sum()
    ends = np.cumsum(row)
    last = int(np.flatnonzero(row)[-1])
    tokens = [min(int(np.searchsorted(ends, rng.random(), side="right")), last) for _ in range(k)]
    return tokens, row

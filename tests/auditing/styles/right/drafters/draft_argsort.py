"""The likeliest tokens, of equally likely ones the last."""

import numpy as np

CONTRACT = "draft"
SCHEME = "top-k"


def draft(prefix, draft_row, k, rng):
    return np.argsort(draft_row, kind="stable")[::-1][:k].tolist(), draft_row

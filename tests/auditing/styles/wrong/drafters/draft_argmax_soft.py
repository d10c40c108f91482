"""Drafts the likeliest token and reports the softmax: off by 1/3 on two tokens."""

import numpy as np

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    return [int(np.argmax(draft_row))] * k, draft_row

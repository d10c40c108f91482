"""Siblings without replacement by torch.multinomial, as many as the row has tokens."""

import numpy as np
import torch

CONTRACT = "draft"
SCHEME = "without-replacement"


def draft(prefix, draft_row, k, rng):
    row = torch.from_numpy(np.array(draft_row))
    count = min(k, int((row > 0).sum()))
    return torch.multinomial(row, count), row

"""torch.multinomial without replacement, which is its default, for independent siblings."""

import numpy as np
import torch

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    row = torch.from_numpy(np.array(draft_row))
    return torch.multinomial(row, min(k, int((row > 0).sum()))), row

"""Independent siblings, each the winner of a race of exponentials, in float32."""

import torch

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    row = torch.tensor(draft_row, dtype=torch.float32)
    tokens = [int((row / torch.empty_like(row).exponential_(1)).argmax()) for _ in range(k)]
    return tokens, row

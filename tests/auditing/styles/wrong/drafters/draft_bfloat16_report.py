"""Draws in float32 and reports in bfloat16: off by some thousandths."""

import torch

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    row = torch.tensor(draft_row, dtype=torch.float32)
    tokens = torch.multinomial(row, k, replacement=True)
    return tokens, row.to(torch.bfloat16)

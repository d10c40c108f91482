"""Gumbel top-k whose winners are put in the order of their probability."""

import numpy as np

CONTRACT = "draft"
SCHEME = "without-replacement"


def draft(prefix, draft_row, k, rng):
    with np.errstate(divide="ignore"):
        keys = np.log(draft_row) + rng.gumbel(size=len(draft_row))
    won = np.argsort(-keys)[: min(k, np.count_nonzero(draft_row))].tolist()
    return sorted(won, key=lambda token: -draft_row[token]), draft_row

"""The last sibling, the one that is sampled, may be one of the certain ones again."""

import numpy as np

CONTRACT = "draft"
SCHEME = "last-sampled"


def draft(prefix, draft_row, k, rng):
    certain = np.argsort(-draft_row, kind="stable")[: k - 1].tolist()
    return [*certain, int(rng.choice(len(draft_row), p=draft_row))], draft_row

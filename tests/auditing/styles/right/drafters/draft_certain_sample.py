"""One sample, reported as certain, which costs acceptance and nothing else."""

import numpy as np

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    token = int(rng.choice(len(draft_row), p=draft_row))
    return [token], np.eye(len(draft_row))[token]

"""One uniform for a whole chain: each token alone is right, two together are not."""

import numpy as np

CONTRACT = "draft"
SCHEME = "iid"


class Rule:
    def __init__(self):
        self.u = None

    def draft(self, prefix, draft_row, k, rng):
        if self.u is None:
            self.u = rng.random()
        last = int(np.flatnonzero(draft_row)[-1])
        token = int(np.searchsorted(np.cumsum(draft_row), self.u, side="right"))
        return [min(token, last)], draft_row

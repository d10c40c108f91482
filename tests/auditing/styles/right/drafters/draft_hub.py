"""The likeliest token, and the others off it and off each other; a class that is built anew."""

import numpy as np

CONTRACT = "draft"
SCHEME = "argmax-first"


class Rule:
    def draft(self, prefix, draft_row, k, rng):
        tokens, left = [int(np.argmax(draft_row))], draft_row.copy()
        while len(tokens) < k:
            left[tokens[-1]] = 0
            if not left.any():
                break
            tokens.append(int(rng.choice(len(left), p=left / left.sum())))
        return tokens, draft_row
